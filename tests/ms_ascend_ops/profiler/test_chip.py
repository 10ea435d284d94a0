from importlib.resources import files

import pytest
import yaml

from ms_ascend_ops.profiler.chip import ChipError, chip_names, load_chip


@pytest.mark.parametrize("name", chip_names())
def test_every_chip_loads_and_every_number_names_its_source(name):
    chip = load_chip(name)
    assert chip.cores > 0
    assert all(len(source) > 2 for source in chip.sources.values())
    assert chip.assumptions


def test_chips_differ_where_their_platform_files_do():
    b2, b4 = load_chip("ascend910b2"), load_chip("ascend910b4")
    assert (b2.cores, b2.clock_ghz, b2.hbm_gb_per_s) == (48, 1.8, 1600)
    assert (b4.cores, b4.clock_ghz, b4.hbm_gb_per_s) == (40, 1.5, 800)
    assert b4.mte2 == b2.mte2  # taken over


def own(tmp_path, change):
    """A description of one's own: the 910B2 with a change."""
    data = {"extends": "ascend910b2", "name": "mine"}
    data |= change
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


def test_a_file_of_ones_own(tmp_path):
    chip = load_chip(own(tmp_path, {"cores": {"value": 24, "source": "half of it"}}))
    assert (chip.name, chip.cores, chip.clock_ghz) == ("mine", 24, 1.8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 24}, r"mine\.yaml: cores must be \{value, source\}, got 24"),
        ({"cores": {"value": 0, "source": "x"}}, r"cores must be more than 0, got 0"),
        ({"cores": {"value": 1.5, "source": "x"}}, r"cores must be a whole number, got 1\.5"),
        ({"cores": {"value": "many", "source": "x"}}, r"cores must be a number below 1e[+]18, got 'many'"),
        ({"cores": {"value": 24, "source": ""}}, r"cores must name its source"),
        ({"memory": {"hbm_efficiency": {"value": 1.2, "source": "x"}}}, r"memory\.hbm_efficiency must be at most 1"),
        ({"mte2": {"seutp_cycles": {"value": 1, "source": "x"}}}, r"mte2\.seutp_cycles is not a number that the model"),
        ({"vector": {"elements_per_cycle": {"Exp": 32}}}, r"elements_per_cycle\.Exp must be \[rate of 16-bit"),
        ({"extends": "mine"}, r"there is no chip 'mine'; the chips are ascend910_93, ascend910b1"),
    ],
)
def test_errors_name_file_and_number(tmp_path, change, message):
    with pytest.raises(ChipError, match=message):
        load_chip(own(tmp_path, change))


def test_a_description_from_before_the_roofline(tmp_path):
    """CANN's operators then take what bytes and FLOPs allow."""
    data = yaml.safe_load((files("ms_ascend_ops.profiler.chips") / "ascend910b2.yaml").read_text())
    del data["published"]["cann_memory_ratio"], data["published"]["cann_cube_ratio"]
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data))
    chip = load_chip(str(path))
    assert (chip.cann_memory_ratio, chip.cann_cube_ratio) == (1, 1)


def test_a_missing_number(tmp_path):
    path = tmp_path / "bare.yaml"
    path.write_text("name: bare\n")
    with pytest.raises(ChipError, match=r"bare\.yaml: cores is missing"):
        load_chip(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cores: &a [*a]\n", "it is no YAML: aliases are not supported"),
        ("cores: " + "[" * 3000, "it is no YAML"),
        ("cores: 2001-99-99\n", "it is no YAML: month must be in"),
        ("cores: {value: 1" + "0" * 400 + ", source: one}\n", "it is no YAML: an integer|cores must be a number below"),
        ("cores: {value: .inf, source: one}\n", "cores must be a number below 1e[+]18, got inf"),
        ("cores: {value: true, source: one}\n", "cores must be a number below"),
        ("cores: {value: 1" + "0" * 100 + ", source: one}\n", "cores must be a number below"),
    ],
)
def test_files_of_strangers(tmp_path, text, message):
    path = tmp_path / "odd.yaml"
    path.write_text(f"extends: ascend910b2\n{text}")
    with pytest.raises(ChipError, match=rf"odd\.yaml: ({message})"):
        load_chip(str(path))


def test_a_missing_file():
    with pytest.raises(ChipError, match=r"there is no chip description nowhere\.yaml"):
        load_chip("nowhere.yaml")


def test_descriptions_that_extend_each_other(tmp_path):
    path = tmp_path / "loop.yaml"
    path.write_text(f"extends: {path}\n")
    with pytest.raises(ChipError, match="goes in a circle"):
        load_chip(str(path))
