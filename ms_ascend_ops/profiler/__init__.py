"""Predicts how long a kernel takes on a chip: the traced build of the host layer, and a timing model.

    record.py      runs a kernel in the traced library -> Trace (trace.py): what every core asked of its pipes
    chip.py        the numbers of a chip, from ms_ascend_ops/profiler/chips/*.yaml
    memory.py      which bytes of a copy come from HBM and which from L2
    program.py     a core's trace -> instructions of its pipes and what each waits for
    simulator.py   the pipes of all cores in time, sharing HBM and L2
    prediction.py  what a user wants to know of that
    timeline.py, report.py   how it is shown

Nothing here was measured on a chip: every figure is a prediction.
"""
