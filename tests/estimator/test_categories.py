"""Categories by HistGradientBoosting's conventions: a column of 0 and 1 per level, missing a level, unknown as missing."""

import numpy as np
import pytest

from onestride._errors import InputError
from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor
from onestride.estimator import _categories as module
from tables import SMALL, draws

pandas = pytest.importorskip("pandas")


def table(seed, n=300):
    rng = draws(seed, 60)
    colour = rng.choice(["red", "green", "blue"], n)
    x = rng.standard_normal(n)
    y = x * (colour == "red") + 2.0 * (colour == "blue") + 0.1 * rng.standard_normal(n)
    return pandas.DataFrame({"colour": pandas.Categorical(colour), "x": x}), y


def test_categories_equal_columns_of_zero_and_one(seed):
    """The fit is that of the table with the levels written out; importances of levels add up to the column's."""
    frame, y = table(seed)
    model = OneStepRegressor(SMALL, random_state=seed).fit(frame, y)
    written = np.column_stack([*(frame["colour"] == c for c in ("blue", "green", "red")), frame["x"]]).astype(float)
    plain = OneStepRegressor(SMALL, random_state=seed).fit(written, y)
    np.testing.assert_allclose(model.predict(frame), plain.predict(written))
    shares = plain.feature_importances_
    np.testing.assert_allclose(model.feature_importances_, [shares[:3].sum(), shares[3]])
    assert model.score(frame, y) > 0.9
    assert model.direction_.shape == (2,)


def test_columns_are_named_numbered_or_masked(seed):
    frame, y = table(seed)
    coded = np.column_stack([frame["colour"].cat.codes, frame["x"]]).astype(float)
    expected = OneStepRegressor(SMALL, random_state=seed).fit(frame, y).predict(frame)
    for wanted in ([0], [True, False]):
        model = OneStepRegressor(SMALL, categorical_features=wanted, random_state=seed).fit(coded, y)
        np.testing.assert_allclose(model.predict(coded), expected)
    strings = frame.assign(colour=frame["colour"].astype(str))
    named = OneStepRegressor(SMALL, categorical_features=["colour"], random_state=seed).fit(strings, y)
    np.testing.assert_allclose(named.predict(strings), expected)
    for wrong in ([2], ["size"], [True], "colours"):
        with pytest.raises(InputError, match="categorical_features must be 'from_dtype', None, or names"):
            OneStepRegressor(SMALL, categorical_features=wrong).fit(coded, y)


def test_missing_is_a_level_and_unknown_counts_as_missing(seed):
    frame, y = table(seed)
    frame.loc[:40, "colour"] = None
    y = np.where(np.arange(len(y)) <= 40, -3.0, y)
    model = OneStepFeatures(SMALL, step_size=0, input_scale=1.0, random_state=seed).fit(frame, y)
    assert list(model.get_feature_names_out()[-5:]) == [
        "colour_blue",
        "colour_green",
        "colour_red",
        "colour_missing",
        "x",
    ]
    new = pandas.DataFrame({"colour": pandas.Categorical(["violet", None]), "x": [0.5, 0.5]})
    features = model.transform(new)
    np.testing.assert_array_equal(features[0], features[1])
    assert OneStepRegressor(SMALL, random_state=seed).fit(frame, y).predict(new) == pytest.approx([-3, -3], abs=0.5)


def test_two_levels_are_one_column_and_rare_levels_of_many_are_missing(seed, monkeypatch):
    rng = draws(seed, 61)
    X = np.column_stack([rng.integers(0, 2, 80), np.arange(80) // 2 % 20])
    X[:6, 1] = 50 + np.arange(6)
    monkeypatch.setattr(module, "MOST_LEVELS", 20)
    found = module.read_categories(X, [0, 1])
    assert found.levels[0] == [0, 1]
    assert found.levels[1] == list(range(20))
    wide = found.expanded(found.coded(X))
    assert wide.shape == (80, 1 + 20 + 1)
    np.testing.assert_array_equal(found.owners(2), [0] + [1] * 21)
    np.testing.assert_array_equal(wide[:6, -1], 1)
    np.testing.assert_array_equal(wide[:, 1:].sum(1), 1)


def test_a_classifier_takes_categories(seed):
    frame, y = table(seed)
    model = OneStepClassifier(SMALL, random_state=seed).fit(frame, y > 1)
    assert model.score(frame, y > 1) > 0.9


def test_words_of_an_array_are_categories_like_those_of_a_frame(seed):
    frame, y = table(seed)
    expected = OneStepRegressor(SMALL, random_state=seed).fit(frame, y).predict(frame)
    rows = np.column_stack([np.asarray(frame[name], object) for name in frame.columns])
    for given, wanted in ((rows, [0]), (rows, [True, False]), (rows.tolist(), [0])):
        model = OneStepRegressor(SMALL, random_state=seed, categorical_features=wanted).fit(given, y)
        np.testing.assert_allclose(model.predict(given), expected)


def test_a_table_without_its_last_column_is_told_and_no_index_error(seed):
    frame, y = table(seed, n=40)
    frame = frame[["x", "colour"]]
    named = OneStepRegressor(SMALL, random_state=seed, step_size=0).fit(frame, y)
    rows = np.column_stack([frame["x"], frame["colour"].cat.codes])
    plain = OneStepRegressor(SMALL, random_state=seed, step_size=0, categorical_features=[1]).fit(rows, y)
    for model, given, told in (
        (named, frame[["x"]], "yet now missing:\n- colour"),
        (plain, rows[:, :1], "X has 1 features, but"),
        (plain, rows[:, 0], "Expected 2D array"),
    ):
        with pytest.raises(ValueError, match=told):
            model.predict(given)


class Column:
    def __init__(self, name, values):
        self.name, self.values = name, np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype)


class Categorical:
    """The name of polars' dtype."""


class Frame:
    """What is used of a polars frame, which has no `iloc` and is not changed in place."""

    def __init__(self, columns, dtypes):
        self._columns, self.dtypes = columns, dtypes

    columns = property(lambda self: list(self._columns))
    shape = property(lambda self: (len(next(iter(self._columns.values())).values), len(self._columns)))

    def __getitem__(self, name):
        return self._columns[name]

    def with_columns(self, changed):
        return Frame(self._columns | {column.name: column for column in changed}, self.dtypes)


@pytest.mark.parametrize("wanted", ["from_dtype", ["kind"], [1]])
def test_a_frame_of_polars_has_categories(wanted):
    columns = {"x": Column("x", [1.0, 2.0, 3.0]), "kind": Column("kind", np.array(["b", "a", None], object))}
    frame = Frame(columns, [0.0, Categorical()])
    found = module.read_categories(frame, wanted)
    assert (found.levels, found.gaps) == ({1: ["a", "b"]}, {1})
    coded = found.coded(frame)
    np.testing.assert_array_equal(coded["kind"].values, [1, 0, np.nan])
    assert frame["kind"].values[0] == "b"
    assert module.read_categories(frame, None).levels == {}
