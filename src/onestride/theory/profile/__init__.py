"""The profile theory: errors at finite n for steps of any size.

In the order of the formulas:

    neurons         nodes of a sample's coordinate, a neuron's readout and its weight along the learned direction
    harmonics       a function of one coordinate by degree: b, k_1 … k_L, the rest, and multiplicities
    several         a function of several coordinates by degree: the parts of a teacher of several directions
    smoothing       one coordinate again, for Gaussian inputs and degree one: μ, k, k₂, e
    gradient_noise  the spectral laws of M, what the step does besides its rank-one part
    strength        how strong the rest of the weights is after the step, at each level of the theory
    sectors         rows × neurons and a list of sectors: the object that the equations are about
    classic         its builder at the levels of one degree
    degrees         its builder with every degree, the default
    memory          what the step remembers of its batch, in the mean features of that builder
    one_readout     the same where all readouts are equal, to all orders
    one_neuron      the map that the neurons of each readout follow through several steps
    coordinates     nodes of the inputs along the directions that these have weights on
    same_samples    the same on one batch
    travel          which of them, and how large steps may be
    leading         the directions that lead the neurons' weights after them
    schedule        the builder for several steps, every degree
    schedule_memory what they leave in its mean features
    batch_plane     the directions by which a sample of the step is known
    batch_rows      the samples of the step as rows of the ridge regression
    same_batch      what it changes to fit the readout on them
    lengths         averages over random lengths of the inputs
    anisotropy      where the directions of a step lie in the spectrum of the inputs' covariance
    moves           what steps do to the neurons then, by readout: one step in closed form
    correlated      several of them: the one-neuron map where the covariance turns every direction
    along           neurons along those directions: their weights
    drift           and what these make of the mean features
    higher          degrees above one: products of eigenvalues
    covariance      the builder for inputs with a covariance or random lengths
    coupled         the special sector when directions of sector 1 hang together
    build           `build_model`: which of the three, and the sentence where there is no model
    equations       `solve` at a real, complex or negative λ
    quadratic_form  Y = yᵀRy and its derivatives, read off a solution
    errors          train and test errors on steps × penalties, with a status and a sentence for each
    slopes          the derivatives of the test error by the step, the penalty and the samples
"""
