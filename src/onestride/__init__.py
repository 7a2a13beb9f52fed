from onestride.problem import Problem, Step
