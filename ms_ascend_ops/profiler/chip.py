"""Reads the numbers of a chip: `ms_ascend_ops/profiler/chips/<name>.yaml`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ms_ascend_ops.yaml_text import read_yaml

__all__ = ["Chip", "ChipError", "Cube", "Mte", "chip_names", "load_chip"]

_PACKAGE = "ms_ascend_ops.profiler.chips"
_MOST = 1e18


class ChipError(ValueError):
    """A chip description is missing or wrong."""


@dataclass(frozen=True)
class Mte:
    """Describes one direction of copies between global memory and the memory of one core."""

    setup_cycles: float
    bytes_per_cycle: float
    l2_bytes_per_cycle: float
    piece_cycles: float
    unaligned_efficiency: float
    atomic_efficiency: float = 1.0


@dataclass(frozen=True)
class Cube:
    """Describes a cube core: L1, from there operands in L0A and L0B, sums in L0C. Rates are bytes per cycle."""

    cores: int
    macs_per_cycle: float  # of 16-bit operands
    float_share: float  # of that, with operands of float
    hf32_share: float  # the same where they may be rounded to HF32
    issue_cycles: float  # of a multiplication of base blocks
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    load_cycles: float  # of a load from L1, besides its bytes
    l0a_rate: float
    l0b_rate: float
    start_us: float  # of the Matmul objects of a kernel
    message_us: float  # of a request of a vector core
    mte2: Mte  # global memory to L1
    fix: Mte  # L0C to global memory

    def macs(self, element_bytes: int, hf32: bool = False) -> float:
        """Return the multiply-adds in a cycle for operands of so many bytes."""
        if element_bytes <= 2:
            return self.macs_per_cycle * 2 / element_bytes
        return self.macs_per_cycle * (self.hf32_share if hf32 else self.float_share)


@dataclass(frozen=True)
class Chip:
    """Holds all that the model knows of a chip.

    Rates are bytes or elements per cycle of one core, unless named otherwise.
    """

    name: str
    cores: int
    clock_ghz: float
    launch_us: float
    sync_all_us: float
    ub_bytes: int
    call_cycles: float
    setting_cycles: float
    local_access_cycles: float
    global_access_cycles: float
    issue_cycles: float
    drain_cycles: float
    reduce_drain_cycles: float
    elements_per_cycle: Mapping[str, tuple[float, float]]
    mte2: Mte
    mte3: Mte
    hbm_gb_per_s: float
    hbm_efficiency: float
    l2_gb_per_s: float
    vector_l2_gb_per_s: float  # where no cube core loads
    l2_bytes: int
    line_bytes: int
    sector_bytes: int
    flag_cycles: float
    low_ratio: float  # published times of kernels like ours over predictions: most lie between
    high_ratio: float
    cube: Cube
    soc: str = ""  # what CANN calls a chip of these ("Ascend910B2"), and the kind that packages are built for
    compute_unit: str = ""
    ub_reserved_bytes: int = 0  # of the Unified Buffer, what CANN keeps, beyond `ub_bytes`
    hbm_bytes: int = 0
    cann_memory_ratio: float = (
        1.0  # published times of CANN's kernels over the bound of HBM, and of the cube: the middle
    )
    cann_cube_ratio: float = 1.0
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def cycles(self, us: float) -> float:
        """Convert microseconds to cycles of this chip."""
        return us * self.clock_ghz * 1e3

    def us(self, cycles: float) -> float:
        """Convert cycles of this chip to microseconds."""
        return cycles / (self.clock_ghz * 1e3)

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """Return what HBM gives all cores together at best, in practice."""
        return self.hbm_gb_per_s * self.hbm_efficiency / self.clock_ghz

    @property
    def l2_bytes_per_cycle(self) -> float:
        return self.l2_gb_per_s / self.clock_ghz

    @property
    def vector_l2_bytes_per_cycle(self) -> float:
        return self.vector_l2_gb_per_s / self.clock_ghz

    def lanes_per_cycle(self, instruction: str, element_bytes: int) -> float:
        """Return the number of elements that an instruction handles in a cycle.

        `element_bytes` of its widest operand.
        """
        rates = self.elements_per_cycle.get(instruction, self.elements_per_cycle["default"])
        return rates[0] if element_bytes <= 2 else rates[1]

    @property
    def assumptions(self) -> dict[str, str]:
        """Return the numbers that are guesses, with what they are based on."""
        return {key: text for key, text in self.sources.items() if text.startswith("assumption")}

    def changed(self, **values: Any) -> Chip:
        """Return the same chip with other numbers, for experiments."""
        return replace(self, **values)


# Each field stands here in the file, and has this least value (exclusive, unless it may be 0).
_NUMBERS: dict[str, tuple[str, bool]] = {
    "cores": ("cores", False),
    "clock_ghz": ("clock_ghz", False),
    "launch_us": ("launch.overhead_us", True),
    "sync_all_us": ("launch.sync_all_us", True),
    "ub_bytes": ("unified_buffer.bytes", False),
    "call_cycles": ("scalar.call_cycles", True),
    "setting_cycles": ("scalar.setting_cycles", True),
    "local_access_cycles": ("scalar.local_access_cycles", True),
    "global_access_cycles": ("scalar.global_access_cycles", True),
    "issue_cycles": ("vector.issue_cycles", True),
    "drain_cycles": ("vector.drain_cycles", True),
    "reduce_drain_cycles": ("vector.reduce_drain_cycles", True),
    "hbm_gb_per_s": ("memory.hbm_gb_per_s", False),
    "hbm_efficiency": ("memory.hbm_efficiency", False),
    "l2_gb_per_s": ("memory.l2_gb_per_s", False),
    "vector_l2_gb_per_s": ("memory.vector_l2_gb_per_s", False),
    "l2_bytes": ("memory.l2_bytes", False),
    "line_bytes": ("memory.line_bytes", False),
    "sector_bytes": ("memory.sector_bytes", False),
    "flag_cycles": ("sync.flag_cycles", True),
    "low_ratio": ("published.low_ratio", False),
    "high_ratio": ("published.high_ratio", False),
}
_MTE_NUMBERS: dict[str, bool] = {
    "setup_cycles": True,
    "bytes_per_cycle": False,
    "l2_bytes_per_cycle": False,
    "piece_cycles": True,
    "unaligned_efficiency": False,
}
_CUBE_NUMBERS: dict[str, bool] = {
    "cores": False,
    "macs_per_cycle": False,
    "float_share": False,
    "hf32_share": False,
    "issue_cycles": True,
    "l1_bytes": False,
    "l0a_bytes": False,
    "l0b_bytes": False,
    "l0c_bytes": False,
    "load_cycles": True,
    "l0a_rate": False,
    "l0b_rate": False,
    "start_us": True,
    "message_us": True,
}
# Numbers and names that only an emulated device needs: a description may go without.
_DEVICE_INTEGERS = {"ub_reserved_bytes": "unified_buffer.reserved_bytes", "hbm_bytes": "memory.hbm_bytes"}
_DEVICE_NUMBERS = _DEVICE_INTEGERS | {
    "cann_memory_ratio": "published.cann_memory_ratio",
    "cann_cube_ratio": "published.cann_cube_ratio",
}
_DEVICE_NAMES = ("soc", "compute_unit")
_CUBE_INTEGERS = ("cores", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes")
_INTEGERS = ("cores", "ub_bytes", "l2_bytes", "line_bytes", "sector_bytes")
_SHARES = ("hbm_efficiency", "unaligned_efficiency", "atomic_efficiency", "float_share", "hf32_share")
_RATES = "vector.elements_per_cycle"
_ATOMIC = ("mte3", "cube.fix")  # those that have an atomic_efficiency


def chip_names() -> list[str]:
    """Return the chips this package knows."""
    return sorted(Path(entry.name).stem for entry in files(_PACKAGE).iterdir() if entry.name.endswith(".yaml"))


def load_chip(name: str) -> Chip:
    """Load a chip by its name, or by the path of a file of your own.

    Raises:
        ChipError: there is no such chip, or its description is wrong; the message names the file and the number.
    """
    where, data = _read(name)
    seen = {where}
    while "extends" in data:
        parent = str(data.pop("extends"))
        where_parent, below = _read(parent)
        if where_parent in seen:
            raise ChipError(f"{where}: 'extends' goes in a circle over {parent}")
        seen.add(where_parent)
        data = _merge(below, data)
    return _chip(where, data)


def _read(name: str) -> tuple[str, dict[str, Any]]:
    if name in chip_names():
        where, text = f"{name}.yaml", files(_PACKAGE).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    elif name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise ChipError(f"there is no chip description {path}")
        where, text = str(path), path.read_text(encoding="utf-8", errors="replace")
    else:
        raise ChipError(
            f"there is no chip '{name}'; the chips are {', '.join(chip_names())}. A path that ends in .yaml is read "
            "as a description of your own."
        )
    try:
        data = read_yaml(text)
    except ValueError as error:
        raise ChipError(f"{where}: {error}") from error
    if not isinstance(data, dict):
        raise ChipError(f"{where}: must be a mapping, got {type(data).__name__}")
    return where, data


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        is_number = isinstance(value, Mapping) and "value" in value
        merged[key] = (
            _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) and not is_number else value
        )
    return merged


def _chip(where: str, data: Mapping[str, Any]) -> Chip:
    sources: dict[str, str] = {}
    known = {"name", _RATES, *_DEVICE_NAMES, *_DEVICE_NUMBERS.values()}
    values: dict[str, Any] = {"name": str(data.get("name", where))}
    for field_name, (path, may_be_zero) in _NUMBERS.items():
        known.add(path)
        values[field_name] = _number(where, data, path, may_be_zero, sources)
    for direction in ("mte2", "mte3"):
        values[direction] = _mte(where, data, direction, known, sources)
    cube: dict[str, Any] = {}
    for key, may_be_zero in _CUBE_NUMBERS.items():
        known.add(f"cube.{key}")
        cube[key] = _number(where, data, f"cube.{key}", may_be_zero, sources)
    for direction in ("mte2", "fix"):
        cube[direction] = _mte(where, data, f"cube.{direction}", known, sources)
    values["cube"] = Cube(**cube)
    values["elements_per_cycle"] = _rates(where, data, sources)
    values |= {key: str(data[key]) for key in _DEVICE_NAMES if key in data}
    for field_name, path in _DEVICE_NUMBERS.items():
        if _at(data, path) is not None:
            values[field_name] = _number(where, data, path, False, sources)
    _check_names(where, data, known)
    return Chip(**values, sources=sources)


def _mte(where: str, data: Mapping[str, Any], path: str, known: set[str], sources: dict[str, str]) -> Mte:
    numbers = dict(_MTE_NUMBERS) | ({"atomic_efficiency": False} if path in _ATOMIC else {})
    known.update(f"{path}.{key}" for key in numbers)
    return Mte(**{key: _number(where, data, f"{path}.{key}", zero, sources) for key, zero in numbers.items()})


def _at(data: Mapping[str, Any], path: str) -> Any:
    entry: Any = data
    for key in path.split("."):
        if not isinstance(entry, Mapping) or key not in entry:
            return None
        entry = entry[key]
    return entry


def _number(where: str, data: Mapping[str, Any], path: str, may_be_zero: bool, sources: dict[str, str]) -> Any:
    entry = _at(data, path)
    if entry is None:
        raise ChipError(f"{where}: {path} is missing")
    if not isinstance(entry, Mapping) or set(entry) != {"value", "source"}:
        raise ChipError(f"{where}: {path} must be {{value, source}}, got {entry!r:.200}")
    value, source = entry["value"], entry["source"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        raise ChipError(f"{where}: {path} must be a number below {_MOST:g}, got {value!r:.60}")
    if value < 0 or (value == 0 and not may_be_zero):
        raise ChipError(f"{where}: {path} must be {'at least' if may_be_zero else 'more than'} 0, got {value}")
    leaf = path.rsplit(".", 1)[-1]
    if leaf in _SHARES and value > 1:
        raise ChipError(f"{where}: {path} must be at most 1, got {value}")
    if not isinstance(source, str) or not source.strip():
        raise ChipError(f"{where}: {path} must name its source (or 'assumption: ...')")
    sources[path] = source
    whole = {_NUMBERS[name][0] for name in _INTEGERS} | {f"cube.{name}" for name in _CUBE_INTEGERS}
    whole |= set(_DEVICE_INTEGERS.values())
    is_integer = path in whole
    if is_integer and value != int(value):
        raise ChipError(f"{where}: {path} must be a whole number, got {value}")
    return int(value) if is_integer else float(value)


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MOST


def _rates(where: str, data: Mapping[str, Any], sources: dict[str, str]) -> dict[str, tuple[float, float]]:
    entry = _at(data, _RATES)
    if not isinstance(entry, Mapping) or "default" not in entry or "source" not in entry:
        raise ChipError(f"{where}: {_RATES} must have a source, a default and rates by instruction")
    sources[_RATES] = str(entry["source"])
    rates = {}
    for name, pair in entry.items():
        if name == "source":
            continue
        numbers = isinstance(pair, list) and len(pair) == 2 and all(_is_rate(x) for x in pair)
        if not numbers:
            raise ChipError(f"{where}: {_RATES}.{name} must be [rate of 16-bit, rate of 32-bit], got {pair!r:.60}")
        rates[str(name)] = (float(pair[0]), float(pair[1]))
    return rates


def _check_names(where: str, data: Mapping[str, Any], known: set[str]) -> None:
    def walk(entry: Mapping[str, Any], prefix: str) -> None:
        for key, value in entry.items():
            path = f"{prefix}{key}"
            if path in known:
                continue
            if isinstance(value, Mapping) and any(name.startswith(f"{path}.") for name in known):
                walk(value, f"{path}.")
                continue
            raise ChipError(f"{where}: {path} is not a number that the model knows")

    walk(data, "")
