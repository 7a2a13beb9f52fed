"""`from_data`: tables from arrays, frames and files, what is told of bad ones, and what is estimated."""

import pickle

import numpy as np
import pytest

import onestride as one
from onestride.own_table import _hermite_coefficients, _normal_scores, read_table, ridge_direction
from onestride.result import Status


def rows(seed=0, n=120, d=4):
    """Correlated columns in raw units and a target that is linear in one direction, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) * 3 + 10
    y = (X - X.mean(0)) @ np.arange(1.0, d + 1)
    return X, 100 + 5 * (y / y.std() + 0.5 * rng.standard_normal(n))


def test_a_problem_has_the_sizes_of_its_table_and_every_function_answers():
    X, y = rows()
    problem = one.from_data(X, y, N=64, activation="tanh", step=one.Step(constant=1.0, exponent=0.5))
    assert (problem.n, problem.d, problem.N) == (120, 4, 64)
    assert problem.inputs.target_scale == pytest.approx(y.std())
    np.testing.assert_allclose(problem.inputs.X.std(0), 1)
    found = one.scaling(problem, "n", [60, 240])
    assert all(status is Status.SOLVED for status in found.status)
    assert found.test_error[1] < found.test_error[0] < 1.5
    assert "above the noise" not in found.message
    best = one.optimum(problem, over=("ridge",))
    assert best.test_error <= one.predict(problem).test_error * (1 + 1e-9)
    with pytest.raises(one.InputError, match="number of columns"):
        one.scaling(problem, "d", [10, 20])


def test_units_do_not_matter():
    X, y = rows()
    first, second = (one.predict(one.from_data(A, b, N=64)).test_error for A, b in ((X, y), (X * 1e6 - 7, -y / 1e3)))
    assert first == pytest.approx(second, rel=1e-6)


def test_file_frame_and_array_are_one_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(price=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "s.csv", index=False, sep=";")
    np.savez(tmp_path / "t.npz", X=X, y=y)
    kinds = [(frame, None, "price"), (tmp_path / "t.csv", None, "price"), (str(tmp_path / "s.csv"), None, None)]
    kinds += [
        (tmp_path / "t.npz", None, None),
        (X, y, None),
        (X, y[:, None], None),
        (frame[list("abcd")], frame["price"], None),
    ]
    if pytest.importorskip("pyarrow"):
        frame.to_parquet(tmp_path / "t.parquet")
        kinds.append((tmp_path / "t.parquet", None, "price"))
    for given in kinds:
        table = read_table(*given)
        np.testing.assert_allclose(table.y, (y - y.mean()) / y.std(), atol=1e-9)
        np.testing.assert_allclose(table.X, (X - X.mean(0)) / X.std(0), atol=1e-9)


def bad(**changes):
    X, y = rows()
    columns = {name: list(X[:, j]) for j, name in enumerate("abcd")} | {"y": list(y)}
    for name, value in changes.items():
        columns[name][6] = value
    return columns


@pytest.mark.parametrize(
    ("X", "y", "target", "told"),
    [
        (bad(b="Oslo"), None, "y", r"column 'b' holds text, 'Oslo' in row 7"),
        (bad(b=None), None, "y", r"column 'b' has a missing value in row 7"),
        (bad(b=float("nan")), None, "y", r"column 'b' has a missing value in row 7"),
        (bad(b=float("inf")), None, "y", r"column 'b' must hold finite numbers, got inf in row 7"),
        (bad(y="?"), None, "y", r"the target 'y' has a missing value in row 7"),
        (bad(), None, "yy", r"target must be a column of the table, got 'yy'; did you mean 'y'"),
        (bad(), None, None, r"y is missing"),
        (rows()[0][:49], rows()[1][:49], None, r"at least 50 rows, got 49"),
        (rows()[0], rows()[1][:60], None, r"as many rows as each other, got 120 and 60"),
        (np.ones((60, 2)), np.arange(60.0), None, r"every column of X is constant"),
        (rows()[0], np.ones(120), None, r"y is the same number, 1, in every row"),
        (rows()[1], rows()[1], None, r"X must be a table of rows and columns"),
        (rows()[0], rows()[0], None, r"y must be one column of numbers"),
        (rows()[0], ["spam"] * 120, None, r"y holds text, 'spam' in row 1"),
        ("nowhere.csv", None, None, r"nowhere.csv cannot be read: No such file"),
        ("table.xlsx", None, None, r"ending in .csv, .parquet, .npz"),
    ],
)
def test_a_bad_table_is_told_in_a_sentence(X, y, target, told):
    with pytest.raises(one.InputError, match=told):
        read_table(X, y, target)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,2\n3,4\n", r"first line of t\.csv must have the names of the columns, got numbers: 1, 2"),
        ("a;b\n1,5;2\n", r"column 'a' has a decimal comma, '1,5' in row 1; write numbers with a point"),
        ("a,a\n1,2\n", r"must have different names"),
    ],
)
def test_a_file_that_is_no_table_is_told_in_a_sentence(tmp_path, text, told):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(one.InputError, match=told):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_without_a_name_that_counts_the_rows_is_left_out(tmp_path, first):
    X, y = rows()
    counted = enumerate(zip(X, y, strict=True), first)
    lines = [",a,b,c,d,y", *(",".join(map(str, (i, *x, t))) for i, (x, t) in counted)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    table = read_table(tmp_path / "t.csv")
    assert table.names == ("a", "b", "c", "d")
    assert table.facts.notes == ("left out, as it counts the rows: the column without a name",)


def test_the_explorer_says_what_is_wrong_with_a_table(capsys):
    pytest.importorskip("starlette")
    from onestride.cli import main

    for given, told in ((["--data", "nowhere.csv"], "nowhere.csv cannot be read"), (["--target", "y"], "without it")):
        with pytest.raises(SystemExit) as ended:
            main(["explore", "--no-browser", *given])
        assert ended.value.code == 2
        assert told in capsys.readouterr().err


def test_lines_of_a_file_that_do_not_fit_are_told(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n1\n")
    with pytest.raises(one.InputError, match=r"row 2 of t\.csv must have 2 values"):
        read_table(tmp_path / "t.csv")


def test_the_excess_of_a_table_is_its_error_since_nobody_knows_the_noise():
    problem = one.from_data(*rows(), N=32)
    assert problem.noise > 0
    curve = one.scaling(problem, "n", [60, 100])
    np.testing.assert_array_equal(curve.excess, curve.test_error)
    assert "above the noise" not in curve.message
    stated = one.scaling(one.Problem(n=60, d=30, N=40, noise=0.5), "n", [60, 100])
    np.testing.assert_allclose(stated.excess, stated.test_error - 0.25)


def test_a_plan_of_a_frame_is_carried_out():
    """As polars has it: a LazyFrame has columns, and no values before `collect`."""
    X, y = rows()
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}

    class Lazy:
        columns = property(lambda self: pytest.fail("asked of the plan"))
        lazy = collect = lambda self: columns

    assert read_table(Lazy(), target="y").digest == read_table(columns, target="y").digest


def test_constant_columns_are_left_out_and_named():
    X, y = rows()
    table = read_table(np.column_stack([X, np.full(120, 0.1)]), y)
    assert table.X.shape == (120, 4)
    assert table.facts.notes == ("left out, being constant: x5",)


def test_rows_that_repeat_another_count_once_where_chance_would_not_make_them():
    X, y = rows()
    table = read_table(np.vstack([X, X[:20]]), np.append(y, y[:20]))
    assert (table.rows, table.facts.notes) == (120, ("20 of 140 rows repeat another and are counted once",))
    np.testing.assert_allclose(table.X, read_table(X, y).X)
    assert read_table(np.vstack([X, X[:20]]), np.append(y, y[:20]), repeats="keep").rows == 140
    few = np.random.default_rng(0).choice([0.0, 1.0], (200, 3))  # of eight different rows
    kept = read_table(few, few.sum(1) > 1)
    assert kept.rows == 200
    assert "kept: columns of so few values" in kept.facts.notes[0]
    ten = np.random.default_rng(0).integers(0, 10, (200, 3)).astype(float)  # 200²/2 pairs, one in a thousand alike
    kept = read_table(ten[:, :2], ten[:, 2])
    assert (kept.rows, "columns of so few values" in kept.facts.notes[0]) == (200, True)
    with pytest.raises(one.InputError, match="at least 50 rows, got 8 after merging equal ones"):
        read_table(few, few.sum(1) > 1, repeats="merge")
    with pytest.raises(one.InputError, match="repeats must be 'auto', 'merge' or 'keep', got 'drop'"):
        read_table(X, y, repeats="drop")


def test_a_problem_names_the_file_of_its_table(tmp_path):
    X, y = rows()
    np.savez(tmp_path / "t.npz", X=X, y=y)
    problem = one.from_data(tmp_path / "t.npz", N=64, ridge=0.3, step=one.Step(exponent=0.5))
    assert one.Problem.from_toml(problem.to_toml()) == problem == pickle.loads(pickle.dumps(problem))
    assert one.predict(one.Problem.from_json(problem.to_json())).test_error == one.predict(problem).test_error
    np.savez(tmp_path / "t.npz", X=X, y=y[::-1])
    with pytest.raises(one.InputError, match="has other rows than when the problem was written"):
        one.Problem.from_dict(problem.to_dict())
    assert one.from_data(X, y) == one.from_data(X.copy(), y)
    assert one.from_data(X, y) != one.from_data(X, y[::-1])
    with pytest.raises(one.InputError, match="a table in memory, whose rows are not written"):
        one.Problem.from_dict(one.from_data(X, y).to_dict())


def test_fields_of_the_table_are_not_given():
    with pytest.raises(one.InputError, match="noise comes from the table"):
        one.from_data(*rows(), noise=0.3)


def test_the_stand_in_has_the_direction_the_link_and_the_noise_of_the_rows():
    """Y = 0.6 H₁ + 0.3 H₂ + noise along the first eigenvector of four; 4,000 rows, tolerances of four standard errors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 4)) * [2, 1, 1, 1] @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    X /= X.std(0)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    z = X @ vectors[:, -1] / np.sqrt(values[-1])
    y = 0.6 * z + 0.3 * (z**2 - 1) + 0.5 * rng.standard_normal(4000)
    table, scale = read_table(X, y), y.std()
    np.testing.assert_allclose(np.array(table.link) * scale, [0, 0.6, 0.3, 0], atol=4 * max(table.facts.link_stderr))
    assert table.noise * scale == pytest.approx(0.5, rel=0.1)
    power = np.array(table.teacher) * np.array(table.eigenvalues)
    assert power[-1] > 0.95  # of 1
    assert "explains" in str(table.facts)


def test_ridge_direction_is_that_of_least_squares_where_rows_are_many():
    X, y = rows(n=2000)
    Z, t = X - X.mean(0), y - y.mean()
    np.testing.assert_allclose(ridge_direction(X, y), np.linalg.lstsq(Z, t, rcond=None)[0], rtol=0.05)


def test_the_overlap_is_that_of_a_fit_to_four_fifths_of_the_rows():
    """Noise over signal t of a fit falls like one over its rows, and fits to two halves correlate by 1/(1 + t)."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((200, 30))
    y = Z[:, 0] + 1.5 * rng.standard_normal(200)
    table = read_table(Z, y)
    halves = np.array_split(np.random.default_rng(0).permutation(200), 2)
    a, b = (table.X @ ridge_direction(table.X[half], table.y[half]) for half in halves)
    t = 1 / np.corrcoef(a, b)[0, 1] - 1
    assert t > 0.3
    assert table.facts.overlap == pytest.approx(1 / np.sqrt(1 + t * 0.5 / 0.8), rel=1e-9)


def test_the_errors_of_the_linear_share_and_of_the_link_are_their_spread():
    """60 tables of 150 rows: their spread is known to 9 %, and their mean to a eighth of it."""
    rng, found = np.random.default_rng(1), []
    for _ in range(60):
        Z = rng.standard_normal((150, 2))
        y = 0.7 * Z[:, 0] + 0.3 * (Z[:, 0] ** 2 - 1) + np.sqrt(0.33) * rng.standard_normal(150)
        found.append(read_table(Z, y).facts)
    values = np.array([(facts.linear, *facts.link[:2]) for facts in found])
    said = np.mean([(facts.linear_stderr, *facts.link_stderr[:2]) for facts in found], 0)
    assert ((values.std(0) / said > 0.65) & (values.std(0) / said < 1.5)).all()
    np.testing.assert_array_less(np.abs(values.mean(0) - [0.49, 0.7, 0.3]), 0.5 * said)


def test_the_linear_share_of_a_column_with_two_values_is_its_squared_correlation():
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, 1.0], 200)
    y = x + 0.3 * rng.standard_normal(200)
    facts = read_table(x[:, None], y).facts  # found in five parts of the rows: the scale of each is its own
    assert facts.linear == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2, abs=0.005)


def test_the_error_of_every_coefficient_along_a_known_index_is_its_spread():
    """300 draws of 1,000 normal scores: spreads are known to 4 %, means to 6 % of one."""
    rng, found, said = np.random.default_rng(2), [], []
    for _ in range(300):
        z = rng.standard_normal(1000)
        y = 0.7 * z + 0.3 * (z**2 - 1) + 0.05 * (z**3 - 3 * z) + 0.3 * rng.standard_normal(1000)
        a, stderr = _hermite_coefficients(_normal_scores(z), (y - y.mean()) / y.std())
        found.append(a)
        said.append(stderr)
    power = np.array([0.7, 0.3 * np.sqrt(2), 0.05 * np.sqrt(6)])
    np.testing.assert_allclose(np.std(found, 0) / np.mean(said, 0), 1, atol=0.2)
    gap = np.mean(found, 0) - power / np.sqrt(power @ power + 0.09)
    np.testing.assert_array_less(np.abs(gap), 0.3 * np.mean(said, 0))


def test_a_direction_that_is_hardly_found_makes_the_link_uncertain():
    """ϱ of few rows is off by (1 − ϱ²)/√(d − 1) of itself, and c_k by k times that, beside what s and y leave open."""
    rng = np.random.default_rng(4)
    Z = rng.standard_normal((120, 30))
    table = read_table(Z, Z[:, 0] + 0.3 * (Z[:, 0] ** 2 - 1) + 1.2 * rng.standard_normal(120))
    rho, k = table.facts.overlap, np.arange(1, 4)
    assert 0.5 < rho < 0.95
    a, open_ = (x / np.sqrt([1, 2, 6]) / rho**k for x in _hermite_coefficients(table.index, table.y))
    by_overlap = k * np.abs(a) * (1 - rho**2) / np.sqrt(29)
    assert by_overlap[0] > 0.2 * open_[0]
    np.testing.assert_allclose(np.square(table.facts.link_stderr), open_**2 + by_overlap**2)


def test_scores_turned_round_have_normal_scores_turned_round():
    score = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 5.0])
    np.testing.assert_allclose(_normal_scores(-score), -_normal_scores(score), atol=1e-12)


def test_numbers_whose_squares_vanish_are_refused_for_their_size():
    """Their variance is 0 in floating point, which was told as a constant column or target."""
    X, y = rows()
    with pytest.raises(one.InputError, match=r"column 'x1' are at most .*e-169 in size.*give it another unit"):
        read_table(X * 1e-170, y)
    with pytest.raises(one.InputError, match=r"numbers of y are at most .*e-168 in size.*give it another unit"):
        read_table(X, y * 1e-170)
    with pytest.raises(one.InputError, match="column 'x2'"):
        read_table(X * [1, 1e-170, 1, 1], y)
    np.testing.assert_allclose(read_table(X * 1e-140, y * 1e-140).X, read_table(X, y).X)
    assert read_table(np.column_stack([X, np.zeros(120)]), y).facts.notes == ("left out, being constant: x5",)
