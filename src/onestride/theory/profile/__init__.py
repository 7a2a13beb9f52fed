"""The profile theory: errors at finite n for every step from 0 to c√n.

In the order of the formulas:

    neurons         nodes of a sample's coordinate, a neuron's readout and its weight along the learned direction
    smoothing       the activation and the teacher seen through what is not learned: μ, k, k₂, e
    gradient_noise  the spectral laws of M, what the step does besides its rank-one part
    strength        how strong the rest of the weights is after the step: the four levels of the theory
    model           `build_profile`: all of that for one problem, which is what the equations are about
    equations       `solve` at a real, complex or negative λ
    quadratic_form  Y = yᵀRy and its derivatives, read off a solution
    errors          train and test errors on steps × penalties, with a status and a sentence for each
"""
