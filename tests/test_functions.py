"""Activations and teachers against closed forms and high-precision integrals that share no code with the package."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval
from scipy.special import ndtr

import onestride as one
from onestride import functions, teachers
from onestride.functions import Function, InputError, activation, function_names, hermite_polynomial, register, teacher
from tolerances import EXACT, assert_close

NAMES = ("relu", "leaky_relu", "softplus", "gelu", "silu", "elu", "tanh", "erf", "shifted_erf", "sigmoid", "sin")
DEGREE = 15
PHI0 = 1 / math.sqrt(2 * math.pi)


@pytest.fixture
def registry():
    """Whatever a test registers is forgotten afterwards."""
    before = dict(functions._REGISTRY)
    yield functions._REGISTRY
    functions._REGISTRY.clear()
    functions._REGISTRY.update(before)
    functions.resolve.cache_clear()


def hermite(k: int, x: float) -> float:
    return float(hermeval(x, [0.0] * k + [1.0]))


def density(x: float) -> float:
    return PHI0 * math.exp(-x * x / 2)


# ---------------------------------------------------------------- closed forms of E[f H_k]/k!


def shifted_relu_coefficients(c: float) -> np.ndarray:
    """(z − c)₊: E f = φ(c) − cQ(c), E f' = Q(c), and f'' = δ_c gives E[f H_k] = H_{k−2}(c)φ(c)."""
    tail = float(ndtr(-c))
    higher = [hermite(k - 2, c) * density(c) / math.factorial(k) for k in range(2, DEGREE + 1)]
    return np.array([density(c) - c * tail, tail, *higher])


def step_coefficients(c: float) -> np.ndarray:
    """1(z > c): E[f H_k] = H_{k−1}(c)φ(c)."""
    higher = [hermite(k - 1, c) * density(c) / math.factorial(k) for k in range(1, DEGREE + 1)]
    return np.array([float(ndtr(-c)), *higher])


def from_generating_function(g) -> np.ndarray:
    """c_k is the Taylor coefficient of g(t) = E[f(Z) e^{tZ − t²/2}], because e^{tz − t²/2} = Σ H_k(z) t^k/k!."""
    with mp.workdps(40):
        return np.array([float(c) for c in mp.taylor(g, 0, DEGREE)])


def gelu_coefficients() -> np.ndarray:
    """zΦ(z): with b_k = E[Φ H_k] from E[φ(Z)e^{tZ−t²/2}] = e^{−t²/4}/(2√π), E[gelu H_k] = b_{k+1} + k b_{k−1}."""
    b = np.zeros(DEGREE + 2)
    b[0] = 0.5
    for k in range(1, DEGREE + 2, 2):
        j = (k - 1) // 2
        b[k] = math.factorial(k - 1) * (-0.25) ** j / math.factorial(j) / (2 * math.sqrt(math.pi))
    return np.array([(b[k + 1] + (k * b[k - 1] if k else 0.0)) / math.factorial(k) for k in range(DEGREE + 1)])


def erf_coefficients() -> np.ndarray:
    """E[erf'(Z)e^{tZ−t²/2}] = 2/√(3π) e^{−t²/3}."""
    c = np.zeros(DEGREE + 1)
    for k in range(1, DEGREE + 1, 2):
        j = (k - 1) // 2
        c[k] = 2 / math.sqrt(3 * math.pi) * (-1 / 3) ** j / math.factorial(j) / k
    return c


def smooth_coefficients(f) -> np.ndarray:
    """Trapezoid rule, step h = 1/8, 40 digits: its error is e^{−2πw/h} < 1e-34, w = π/2 the distance to a pole."""
    with mp.workdps(40):
        nodes = [mp.mpf(i) / 8 for i in range(-8 * 17, 8 * 17 + 1)]
        sums = [mp.mpf(0)] * (DEGREE + 1)
        for z in nodes:
            h0, h1, value = mp.mpf(1), z, f(z) * mp.npdf(z) / 8
            for k in range(DEGREE + 1):
                sums[k] += value * h0
                h0, h1 = h1, z * h1 - (k + 1) * h0
        return np.array([float(s / mp.factorial(k)) for k, s in enumerate(sums)])


def leaky(c: np.ndarray, slope: float) -> np.ndarray:
    c = (1 - slope) * c
    c[1] += slope
    return c


CLOSED_FORMS = {
    "relu": lambda: shifted_relu_coefficients(0.0),
    "leaky_relu": lambda: leaky(shifted_relu_coefficients(0.0), 0.01),
    "gelu": gelu_coefficients,
    "erf": erf_coefficients,
    "sin": lambda: np.array([math.exp(-0.5) * [0, 1, 0, -1][k % 4] / math.factorial(k) for k in range(DEGREE + 1)]),
    "elu": lambda: (
        shifted_relu_coefficients(0.0)
        + from_generating_function(lambda t: mp.exp(t + 0.5) * mp.ncdf(-1 - t) - mp.ncdf(-t))
    ),
    "softplus": lambda: smooth_coefficients(lambda z: mp.log1p(mp.exp(z))),
    "silu": lambda: smooth_coefficients(lambda z: z / (1 + mp.exp(-z))),
    "tanh": lambda: smooth_coefficients(mp.tanh),
    "shifted_erf": lambda: smooth_coefficients(lambda z: mp.erf(z + mp.mpf("0.5"))),
    "sigmoid": lambda: smooth_coefficients(lambda z: 1 / (1 + mp.exp(-z))),
}


@pytest.mark.parametrize(
    ("spec", "power"),
    [("relu", 1), ("softplus", 1), ("tanh", 0), ("sin", 0), ([0, 1], 1), ([0, 1, 0.7], 2), ([0, 1, 0, 0.4], 3)],
)
def test_growth_is_the_power_far_out(spec, power):
    f = functions.teacher(tuple(spec) if isinstance(spec, list) else spec)
    assert f.growth == pytest.approx(power, abs=0.06)
    assert teachers.teacher(tuple(spec) if isinstance(spec, list) else spec, 2, "sum").growth == pytest.approx(
        power, abs=0.06
    )


def test_the_promised_names_exist():
    assert set(NAMES) <= set(function_names())


@pytest.mark.parametrize("name", NAMES)
def test_hermite_coefficients_equal_closed_form(name):
    expected = CLOSED_FORMS[name]()
    raw = activation(name, centred=False).coefficients
    assert_close(raw[: DEGREE + 1], expected, rel=0, abs_=EXACT)
    # the quantity the theory uses is √k! c_k: the same accuracy there
    roots = np.sqrt([float(math.factorial(k)) for k in range(DEGREE + 1)])
    assert_close(raw[: DEGREE + 1] * roots, expected * roots, rel=0, abs_=EXACT)
    centred = activation(name).coefficients
    assert centred[0] == 0
    assert_close(centred[1:], raw[1:], rel=0, abs_=EXACT)


def test_published_first_coefficients():
    """The table of neighbours.md, to its four digits."""
    table = {
        "relu": [0.5, 0.19947, 0, -0.01662, 0],
        "tanh": [0.6057, 0, -0.0606, 0, 0.0057],
        "erf": [0.6515, 0, -0.0724, 0, 0.0072],
        "softplus": [0.5, 0.1033, 0, -0.0026, 0],
    }
    for name, row in table.items():
        assert_close(activation(name).coefficients[1:6], row, rel=0, abs_=6e-5)


@pytest.mark.parametrize("name", ["relu", "tanh", "erf", "sin", "softplus", "gelu"])
def test_coefficients_that_vanish_by_symmetry_are_exactly_zero(name):
    """The plateau theory asks c_k ≠ 0: a rounding error there would add a spike that does not exist."""
    c = activation(name).coefficients
    zero = range(2, 15, 2) if name in ("tanh", "erf", "sin") else range(3, 15, 2)
    assert all(c[k] == 0 for k in zero)
    assert c[1] != 0


@pytest.mark.parametrize("kink", [0.5, 0.0, -1.3, 1 / 3, math.sqrt(2), 3.7])
def test_kinks_anywhere(kink):
    f = teacher(lambda z: np.maximum(z - kink, 0))
    expected = shifted_relu_coefficients(kink)
    assert abs(f.shift - expected[0]) < EXACT
    assert_close(f.coefficients[1 : DEGREE + 1], expected[1:], rel=0, abs_=EXACT)
    # E (Z − c)₊² = (1 + c²)Q(c) − cφ(c)
    square = (1 + kink**2) * ndtr(-kink) - kink * density(kink)
    assert abs(f.second_moment - (square - expected[0] ** 2)) < EXACT


@pytest.mark.parametrize("jump", [0.0, 0.3, -0.77, math.pi / 3])
def test_jumps_anywhere(jump):
    f = teacher(lambda z: np.where(z > jump, 1.0, 0.0))
    expected = step_coefficients(jump)
    assert abs(f.shift - expected[0]) < EXACT
    assert_close(f.coefficients[1 : DEGREE + 1], expected[1:], rel=0, abs_=EXACT)
    assert abs(f.second_moment - expected[0] * (1 - expected[0])) < EXACT


def test_no_position_of_a_kink_or_jump_is_missed(seed):
    """A kink between a panel's end and its outermost node is seen by no node: random positions find such places."""
    for c in np.random.default_rng(1000 * seed + 7).uniform(-2.5, 2.5, 30):
        kink, jump = (teacher(lambda z, c=c: np.maximum(z - c, 0)), teacher(lambda z, c=c: (z > c) * 1.0))
        assert_close(kink.coefficients[1:6], shifted_relu_coefficients(c)[1:6], rel=0, abs_=EXACT)
        assert abs(kink.shift - shifted_relu_coefficients(c)[0]) < EXACT
        assert_close(jump.coefficients[1:6], step_coefficients(c)[1:6], rel=0, abs_=EXACT)
        assert abs(jump.shift - step_coefficients(c)[0]) < EXACT


def test_kink_just_inside_a_panel():
    for c in (1e-3, -1e-3, 1 - 1e-3, 0.5 + 2e-4, 1e-6):
        f = teacher(lambda z, c=c: np.maximum(z - c, 0))
        assert abs(f.shift - shifted_relu_coefficients(c)[0]) < EXACT
        g = teacher(lambda z, c=c: (z > c) * 1.0)
        assert abs(g.shift - step_coefficients(c)[0]) < EXACT


def test_a_box_is_two_jumps(seed):
    for c in np.random.default_rng(1000 * seed + 8).uniform(-2, 2, 10):
        f = teacher(lambda z, c=c: (np.abs(z - c) < 0.1) * 1.0)
        assert abs(f.shift - (ndtr(c + 0.1) - ndtr(c - 0.1))) < EXACT


def test_a_function_too_wild_to_resolve_does_not_exhaust_memory():
    """sin(10⁹z) looks like noise to any rule; refinement stops instead of doubling for ever."""
    f = teacher(lambda z: np.sin(1e9 * z))
    assert f.rule[0].size < 200_000
    assert abs(f.second_moment - 0.5) < 1e-2


def test_a_function_that_returns_booleans_is_a_step():
    f = teacher(lambda z: z > 0.3)
    assert_close(f.coefficients[1:DEGREE], step_coefficients(0.3)[1:DEGREE], rel=0, abs_=EXACT)


@pytest.mark.parametrize("rate", [0.5, 3.0, 6.0])
def test_fast_growth_is_integrated(rate):
    """e^{rz} has c_k = e^{r²/2} r^k/k!; at r = 6 its mass sits twelve standard deviations out."""
    f = teacher(lambda z: np.exp(rate * z))
    expected = np.array([math.exp(rate**2 / 2) * rate**k / math.factorial(k) for k in range(DEGREE + 1)])
    roots = np.sqrt([float(math.factorial(k)) for k in range(DEGREE + 1)])  # accuracy is relative to √(E f²) = e^{r²}
    assert_close(
        (f.coefficients[: DEGREE + 1] * roots)[1:], (expected * roots)[1:], rel=0, abs_=EXACT * math.exp(rate**2)
    )
    assert_close(f.second_moment, math.exp(2 * rate**2) - math.exp(rate**2), rel=1e-9)


def test_fast_oscillation_is_integrated():
    f = teacher(lambda z: np.sin(25 * z))
    assert abs(f.second_moment - 0.5) < EXACT
    g = teacher(lambda z: np.cos(5 * z))
    assert abs(g.coefficients[2] - -25 / 2 * math.exp(-12.5)) < EXACT


# ---------------------------------------------------------------- moments


SECOND_MOMENTS = {  # E f², before centring
    "relu": 0.5,
    "leaky_relu": 0.5 + 0.5e-4,
    "erf": 2 / math.pi * math.asin(2 / 3),
    "sin": (1 - math.exp(-2)) / 2,
}
DERIVATIVE_MOMENTS = {  # E f'²
    "relu": 0.5,
    "leaky_relu": 0.5 + 0.5e-4,
    "erf": 4 / (math.pi * math.sqrt(5)),
    "sin": (1 + math.exp(-2)) / 2,
    "elu": 0.5 + math.exp(2) * float(ndtr(-2.0)),
}


@pytest.mark.parametrize("name", SECOND_MOMENTS)
def test_second_moment_equals_closed_form(name):
    raw = activation(name, centred=False)
    assert abs(raw.second_moment - SECOND_MOMENTS[name]) < EXACT
    assert abs(activation(name).second_moment - (SECOND_MOMENTS[name] - CLOSED_FORMS[name]()[0] ** 2)) < EXACT


@pytest.mark.parametrize("name", DERIVATIVE_MOMENTS)
def test_derivative_variance_equals_closed_form(name):
    expected = DERIVATIVE_MOMENTS[name] - CLOSED_FORMS[name]()[1] ** 2
    assert abs(activation(name).derivative_variance - expected) < EXACT


def test_derivative_variance_resolves_a_kink_off_the_panel_edges(registry):
    for kink in (0.3, math.sqrt(2) - 1, 1.37):
        f = register("bent", lambda z, c=kink: np.maximum(z - c, 0), lambda z, c=kink: (z > c) * 1.0)
        tail = float(ndtr(-kink))
        assert abs(f.derivative_variance - tail * (1 - tail)) < EXACT


@pytest.mark.parametrize("name", NAMES)
def test_parseval(name):
    """Σ k! c_k² ≤ E f² and Σ k·k! c_k² ≤ E f'², with equality where the coefficients have decayed by k = 64."""
    f = activation(name)
    k = np.arange(65)
    power = f.coefficients**2 * [float(math.factorial(i)) for i in k]
    missing, missing_slope = f.second_moment - power.sum(), f.derivative_variance - (k * power)[2:].sum()
    assert missing > -EXACT
    assert missing_slope > -EXACT
    if name in ("sin", "gelu"):
        assert missing < 1e-9
        assert missing_slope < 1e-8
    else:  # k! c_k² falls at least like k^{-5/2}, which is ReLU's
        assert missing < 2 * power[2:].max() * (2 / 64) ** 1.5
    assert abs(f.nonlinear_power - (f.second_moment - f.coefficients[1] ** 2)) < EXACT


@pytest.mark.parametrize("name", NAMES)
def test_centred_functions_have_mean_zero(name):
    """On 400 Gauss-Legendre nodes per side of the kink, a rule the package does not use."""
    x, w = np.polynomial.legendre.leggauss(400)
    x, w = 6 * (x + 1), 6 * w
    f, raw = activation(name), activation(name, centred=False)
    mean = sum((w * np.exp(-x * x / 2) * PHI0) @ f(sign * x) for sign in (-1, 1))
    assert abs(mean) < EXACT
    assert raw.shift == 0
    assert_close(raw(x) - f(x), np.full_like(x, raw.coefficients[0]), rel=0, abs_=EXACT)


def test_centring_is_the_default_and_can_be_switched_off():
    problem = one.Problem(n=4, d=4, N=4, activation="relu")
    assert problem.sigma.coefficients[0] == 0
    assert problem.sigma(np.zeros(1))[0] == pytest.approx(-PHI0, abs=EXACT)
    assert problem.replace(centred=False).sigma(np.zeros(1))[0] == 0
    assert problem.replace(centred=False).sigma.coefficients[0] == pytest.approx(PHI0, abs=EXACT)


@pytest.mark.parametrize("name", NAMES)
def test_derivative_matches_finite_difference(name):
    f = activation(name)
    z = np.concatenate([np.linspace(-6, 6, 997) + 1e-4, [-30.0, 30.0]])
    step = 1e-5
    numeric = (f(z + step) - f(z - step)) / (2 * step)
    assert_close(f.derivative(z), numeric, rel=1e-8, abs_=2e-9)


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_finite_and_keep_the_shape_far_out(name):
    z = np.array([[-1e4, -800.0, -0.0], [0.0, 800.0, 1e4]])
    f = activation(name)
    for values in (f(z), f.derivative(z)):
        assert values.shape == z.shape
        assert np.isfinite(values).all()


@pytest.mark.parametrize("name", NAMES)
def test_functions_do_not_write_into_their_argument(name):
    z = np.linspace(-2, 2, 9)
    z.setflags(write=False)
    activation(name)(z)
    activation(name).derivative(z)


# ---------------------------------------------------------------- polynomials


@pytest.mark.parametrize(
    "coefficients",
    [[0, 1], [0, 1, 0.7071], [0, 0, 0, 2.5], [0.3, -1, 0, 0.25, 0, 1e-3], [0, 1, *[0] * 28, 1], [0, 1e-9, 1]],
)
def test_polynomial_round_trip(coefficients):
    """What was given comes back exactly, whatever the size of the highest term."""
    f = hermite_polynomial(coefficients)
    expected = np.zeros(65)
    expected[: len(coefficients)] = coefficients
    expected[0] = 0
    np.testing.assert_array_equal(f.coefficients, expected)
    power = sum(math.factorial(k) * c**2 for k, c in enumerate(coefficients) if k)
    slope = sum(k * math.factorial(k) * c**2 for k, c in enumerate(coefficients) if k > 1)
    assert f.second_moment == pytest.approx(power, rel=1e-12)
    assert f.derivative_variance == pytest.approx(slope, rel=1e-12, abs=1e-12)


def test_polynomial_coefficients_survive_quadrature():
    """The same polynomial as an opaque callable: its coefficients come from the integral and agree."""
    c = [0, 1, 0.5, -0.3, 0, 0.1]
    f = teacher(lambda z: hermeval(z, c))
    assert_close(f.coefficients[:6], c, rel=0, abs_=EXACT)
    assert not f.coefficients[6:].any()


def test_linear_activation_has_no_nonlinear_power():
    f = hermite_polynomial([0, 1])
    assert f.nonlinear_power < 1e-15
    assert f.derivative(np.zeros((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("bad", [[1.0], [], [0.0] * 66, [0, math.nan], [0, math.inf], [[0, 1], [1, 0]]])
def test_bad_coefficient_lists_are_refused(bad):
    with pytest.raises(InputError, match="Hermite coefficients"):
        hermite_polynomial(bad)


# ---------------------------------------------------------------- registering


def test_register_in_one_line(registry):
    one.register("cube", lambda z: z**3, lambda z: 3 * z**2)
    c = one.Problem(n=3, d=3, N=3, activation="cube", teacher="cube").sigma.coefficients
    assert_close(c[:5], [0, 3, 0, 1, 0], rel=0, abs_=EXACT)  # z³ = H₃ + 3H₁
    assert "cube" in function_names()


def test_registering_again_replaces(registry):
    one.register("mine", lambda z: z**3, lambda z: 3 * z**2)
    assert teacher("mine").coefficients[3] == pytest.approx(1)
    one.register("mine", np.sin, np.cos)
    assert teacher("mine").coefficients[1] == pytest.approx(math.exp(-0.5))


def test_without_derivative_only_a_teacher(registry):
    one.register("only_value", np.sin)
    one.Problem(n=3, d=3, N=3, teacher="only_value")
    with pytest.raises(InputError, match="activation: function 'only_value' has no derivative"):
        one.Problem(n=3, d=3, N=3, activation="only_value")


@pytest.mark.parametrize(
    "derivative",
    [
        lambda z: 1 - np.tanh(z),
        lambda z: -(1 - np.tanh(z) ** 2),
        lambda z: 1.001 * (1 - np.tanh(z) ** 2),
        lambda z: np.where(np.abs(z - 1) < 0.2, 0.0, 1 - np.tanh(z) ** 2),
        lambda z: np.full_like(z, np.nan),
    ],
)
def test_wrong_derivative_is_caught(registry, derivative):
    with pytest.raises(InputError, match=r"the derivative of 'wrong' is .* z = "):
        one.register("wrong", np.tanh, derivative)
    assert "wrong" not in function_names()


def test_derivative_that_overflows_is_caught(registry):
    with pytest.raises(InputError, match="derivative of 'late' is not finite at z = "):
        one.register("late", np.sin, lambda z: np.where(np.abs(z) < 20, np.cos(z), np.inf))


def test_correct_derivatives_of_hard_functions_pass(registry):
    one.register("steep", lambda z: np.tanh(30 * z), lambda z: 30 / np.cosh(np.clip(30 * z, -300, 300)) ** 2)
    one.register("bent", lambda z: np.abs(z - 0.5), lambda z: np.sign(z - 0.5))
    one.register("step", lambda z: np.sign(z), lambda z: 0.0 * z)
    one.register("large", lambda z: 1e6 * np.sin(z), lambda z: 1e6 * np.cos(z))
    one.register("small", lambda z: 1e-6 * np.sin(z), lambda z: 1e-6 * np.cos(z))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (lambda z: max(z, 0), "must accept an array"),
        (lambda z: 1.0, "must act elementwise"),
        (lambda z: z.sum(), "must act elementwise"),
        (lambda z: z[:-1], "must act elementwise"),
        (lambda z: np.exp(z * z), "overflows"),
        (lambda z: np.exp(200 * z), "overflows"),
        (lambda z: np.sqrt(z), "it is nan at z = "),
        (lambda z: np.log(z), "it is -inf at z = "),
        (lambda z: np.exp(z * z / 4 - 100), "not square-integrable"),
        (lambda z: np.sqrt(z + 0j), "must return real numbers"),
        (lambda z: np.array(["a"] * len(z)), "must return real numbers"),
        (3, "must accept an array"),
    ],
)
def test_unusable_functions_are_told_in_a_sentence(registry, value, sentence):
    with pytest.raises(InputError, match=sentence):
        one.register("unusable", value)
    assert "unusable" not in function_names()


def test_what_is_built_in_stays():
    with pytest.raises(InputError, match="name must be a new one, got 'relu', which is built in"):
        one.register("relu", np.sin, np.cos)


@pytest.mark.parametrize("name", ["two words", "", "1st", 5, None])
def test_register_asks_for_a_word(name):
    with pytest.raises(InputError, match="name must be a word"):
        one.register(name, np.sin, np.cos)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match="'rely'; did you mean 'relu'"):
        activation("rely")
    with pytest.raises(InputError, match="no function is called 'zzzzz'; known: relu, "):
        teacher("zzzzz")


def test_a_function_object_can_be_a_teacher_and_is_then_centred():
    f = Function("shifted", lambda z: z + 3.0, centred=False)
    assert teacher(f).coefficients[0] == 0


@pytest.mark.parametrize("name", NAMES)
def test_powers_beyond_the_mean_do_not_see_the_shift(name):
    """c_{>1}² = Var f − c₁² and Var f' belong to f up to a constant; E f² differs by c₀²."""
    centred, raw = activation(name), activation(name, centred=False)
    assert_close(raw.nonlinear_power, centred.nonlinear_power, rel=EXACT, abs_=1e-12)
    assert_close(raw.derivative_variance, centred.derivative_variance, rel=EXACT)
    assert_close(raw.second_moment, centred.second_moment + raw.coefficients[0] ** 2, rel=EXACT)
