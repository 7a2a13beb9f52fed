"""The file that describes a sweep: what it means, and every mistake at once."""

import numpy as np
import pytest

import onestride as one
from onestride.sweeps.cells import group_cells
from onestride.sweeps.spec import read_sweep

ISSUE = """
[problem]
n = 300
d = 150
N = 450
activation = "relu"
teacher = [0, 1, 0.7071]
noise = 0.5
seeds = 4
[axes]
exponent = [0.0, 0.1, 0.2, 0.3, 0.4]
ridge = [0.01, 0.1, 1.0]
d = [100, 150, 200, 250]
"""
BASE = {"n": 30, "d": 20, "N": 40}


def problems(**tables):
    return [problem for problem, _ in read_sweep({"problem": BASE} | tables).points]


def test_axes_span_a_grid_and_replace_the_base(tmp_path):
    (tmp_path / "s.toml").write_text(ISSUE)
    sweep = read_sweep(tmp_path / "s.toml")
    assert sweep.name == "s"
    assert len(sweep.points) == 60
    assert {seeds for _, seeds in sweep.points} == {(0, 1, 2, 3)}
    assert {p.d for p, _ in sweep.points} == {100, 150, 200, 250}
    assert {p.step.constant for p, _ in sweep.points} == {1.0}
    first = one.Problem(
        n=300,
        d=100,
        N=450,
        activation="relu",
        teacher=[0, 1, 0.7071],
        noise=0.5,
        ridge=0.01,
        step=one.Step(exponent=0.0),
    )
    assert sweep.points[0][0] == first
    groups = group_cells(sweep.points)
    assert [len(group.pairs) for group in groups] == [15] * 4


def test_spaces_are_those_of_numpy_to_twelve_digits():
    found = problems(axes={"exponent": {"linspace": [0, 0.4, 5]}, "ridge": {"logspace": [-2, 0, 3]}})
    assert found == problems(axes={"exponent": [0.0, 0.1, 0.2, 0.3, 0.4], "ridge": [0.01, 0.1, 1.0]})
    assert problems(axes={"ridge": {"geomspace": [0.01, 1, 3]}}) == problems(axes={"ridge": [0.01, 0.1, 1.0]})
    assert [p.d for p in problems(axes={"d": {"linspace": [10, 20, 4]}})] == [10, 13, 17, 20]


def test_zipped_axes_run_side_by_side():
    found = problems(axes={"noise": [0, 1]}, zip={"d": [10, 20], "N": [30, 60]})
    assert [(p.noise, p.d, p.N) for p in found] == [(0, 10, 30), (0, 20, 60), (1, 10, 30), (1, 20, 60)]


def test_an_empty_zip_is_no_axis():
    assert problems(zip={}) == problems(zip=[{}, {}]) == problems()


def test_several_problems_share_the_axes_and_keep_their_seeds():
    tables = [BASE | {"activation": "tanh", "seeds": 2}, BASE | {"activation": "erf", "seeds": [5, 7]}]
    sweep = read_sweep({"problem": tables, "axes": {"ridge": [0.1, 1.0]}})
    assert [(p.activation, p.ridge, s) for p, s in sweep.points] == [
        ("tanh", 0.1, (0, 1)),
        ("tanh", 1.0, (0, 1)),
        ("erf", 0.1, (5, 7)),
        ("erf", 1.0, (5, 7)),
    ]
    same = read_sweep({"problem": [BASE | {"seeds": 2}, BASE | {"seeds": [5, 7]}]})
    assert [seeds for _, seeds in same.points] == [(0, 1), (5, 7)]


def test_ratios_stand_for_sizes():
    found = problems(axes={"phi": [0.5, 1.0], "psi": [0.5]})
    assert [(p.n, p.d, p.N) for p in found] == [(30, 15, 30), (30, 30, 60)]


def test_problem_file_with_a_step_table_is_a_base():
    written = one.Problem(**BASE, step=one.Step(constant=2.0, exponent=0.3)).to_dict()
    (point,) = read_sweep({"problem": written}).points
    assert point[0] == one.Problem.from_dict(written)
    assert [p.step.exponent for p in problems(problem=written, axes={"exponent": [0.1]})] == [0.1]


def test_arrays_from_python_are_lists():
    found = problems(axes={"ridge": np.array([0.1, 1.0]), "noise": (0.0, 1.0)})
    assert len(found) == 4


def test_every_mistake_is_told_at_once(tmp_path):
    text = """
methd = "auto"
[problem]
n = 300
activaton = "relu"
teacher = "rellu"
noise = -1
seeds = 0
phi = 1
d = 4
[axes]
exponent = {linspace = [0, 1]}
ridge = [0.01, -1]
rigde = [1]
seeds = [1]
[[zip]]
n = [1, 2, 3]
constant = [1, 2]
"""
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(one.InputError) as caught:
        read_sweep(tmp_path / "bad.toml")
    told = str(caught.value)
    for sentence in (
        "the sweep 'bad' has 12 mistakes:",
        "'methd' at the top of the file is not known; did you mean 'method'?",
        "'activaton' in [problem] is not known; did you mean 'activation'?",
        "'rigde' in [axes] is not known; did you mean 'ridge'?",
        "'seeds' in [axes] is not known; it belongs in [problem]",
        "[problem] teacher: no function is called 'rellu'; did you mean 'relu'?",
        "[problem] noise must be a finite number, 0 or more, got -1",
        "[problem] seeds must be a whole number above 0",
        "[problem] has both phi and d, which say the same thing",
        "[problem] N is missing",
        "[axes] exponent: linspace takes [start, stop, count] and makes finite numbers, got [0, 1]",
        "[axes] ridge must be a finite number above 0, got -1",
        "the axes of a [[zip]] must have equal lengths; n has 3, constant has 2",
    ):
        assert sentence in told


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"axes": {"phi": [1.0], "d": [3]}}, "the axes 'phi' and 'd' say the same thing"),
        ({"axes": {"d": [3]}, "zip": {"d": [3]}}, "the axis 'd' is given more than once"),
        ({"axes": {"d": []}}, r"d must be a non-empty list of values or one of \{linspace"),
        ({"axes": {"ridge": {"linspce": [0, 1, 2]}}}, "ridge must be a non-empty list"),
        (
            {"axes": {"ridge": {"logspace": [0, 400, 2]}}},
            r"logspace takes \[start, stop, count\], powers of ten, and makes finite",
        ),
        ({"problem": BASE | {"inputs": {"eigenvalues": [1.0, 2.0]}}}, "as many eigenvalues as d = 20, got 2"),
        ({"axes": {"directions": [25]}}, "at most d = 20"),
        ({"axes": {"exponent": [1e6]}}, "too large a number"),
        ({"axes": 3}, r"\[axes\] must be a table"),
        ({"problem": 3}, r"problem must be a table \[problem\]"),
        ({"method": "guess"}, "method must be one of auto, profile"),
        ({"problem": BASE | {"phi": "x", "step": {}, "exponent": 0.1}}, "has a table step and also exponent"),
    ],
)
def test_a_mistake_is_a_sentence(tables, sentence):
    with pytest.raises(one.InputError, match=sentence):
        read_sweep({"problem": BASE} | tables)


MANY = {"linspace": [0.1, 1, 2000]}


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"axes": {"ridge": {"linspace": [0.1, 1, 10**12]}}},
            "ridge must have at most 1,000,000 values, got 1,000,000",
        ),
        ({"axes": {"ridge": {"linspace": [0.1, 10**400, 3]}}}, "linspace takes"),
        ({"axes": {"ridge": [1.0] * 1_000_001}}, "ridge must have at most 1,000,000 values, got 1,000,001"),
        (
            {"axes": {"ridge": MANY, "noise": MANY, "constant": MANY, "exponent": MANY}},
            "at most 1,000,000 cells, these axes make 16,000,000,000,000",
        ),
        ({"axes": {"ridge": MANY}, "zip": [{"noise": MANY}, {"constant": MANY}]}, "these axes make 8,000,000,000"),
        ({"problem": [BASE] * 501, "axes": {"ridge": MANY}}, "these axes make 1,002,000"),
        (
            {"problem": BASE | {"seeds": 10_001}, "axes": {"ridge": {"linspace": [0.1, 1, 1000]}}},
            r"at most 10,000,000 runs \(cells × seeds\), this one has 10,001,000",
        ),
        ({"problem": BASE | {"seeds": 10**12}}, "seeds: there must be at most 1,000,000, got 1000000000000"),
        ({"problem": BASE | {"seeds": [1e300]}}, "seeds must be a whole number"),
        ({"problem": BASE | {"seeds": [float("inf")]}}, "seeds must be a whole number"),
        ({"axes": {"phi": [1e308]}}, "phi = 1e\\+308 makes d too large a number"),
        ({"axes": {"psi": [5e-324]}}, "psi = 4.94066e-324 makes N too large a number"),
    ],
)
def test_what_nobody_can_compute_is_refused_before_it_is_built(tables, sentence):
    with pytest.raises(one.InputError, match=sentence):
        read_sweep({"problem": BASE} | tables)


def test_the_largest_allowed_counts_are_allowed():
    from onestride.simulation.run import seed_tuple

    assert len(seed_tuple(1_000_000)) == 1_000_000
    assert len(read_sweep({"problem": BASE, "axes": {"ridge": MANY, "exponent": [0, 0.1]}}).points) == 4000


def test_huge_and_deeply_nested_files_are_sentences(tmp_path):
    with pytest.raises(one.InputError, match="must be at most 16 MiB long"):
        read_sweep("/dev/zero")
    (tmp_path / "x.toml").write_text("x = " + "[" * 100_000)
    with pytest.raises(one.InputError, match=r"not valid TOML: maximum recursion"):
        read_sweep(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text("[problem]\nn = " + "9" * 5000)
    with pytest.raises(one.InputError, match="is not valid TOML"):
        read_sweep(tmp_path / "x.toml")


def test_unreadable_files_are_sentences(tmp_path):
    with pytest.raises(one.InputError, match=r"nothing\.toml cannot be read: No such file"):
        read_sweep(tmp_path / "nothing.toml")
    (tmp_path / "x.toml").write_text("[problem\nn = 3")
    with pytest.raises(one.InputError, match="is not valid TOML"):
        read_sweep(tmp_path / "x.toml")


def test_what_a_session_registered_is_refused_before_any_work(monkeypatch, tmp_path):
    """Worker processes import the script that runs a sweep; a notebook has none."""
    import sys
    from types import ModuleType

    import onestride as one
    from onestride import functions

    monkeypatch.setattr(functions, "_REGISTRY", dict(functions._REGISTRY))
    one.register("cube_of_a_session", lambda z: z**3)
    sweep = {"problem": {"n": 20, "d": 10, "N": 12, "teacher": "cube_of_a_session", "seeds": 2}}
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(one.InputError, match=r"'cube_of_a_session' was registered in a notebook.*ThreadPoolExecutor"):
        one.sweep(sweep, tmp_path / "store")
    assert not (tmp_path / "store").exists()
    one.sweep({"problem": {"n": 20, "d": 10, "N": 12, "seeds": 2}}, tmp_path / "store", workers=1).close()
    functions.resolve.cache_clear()
