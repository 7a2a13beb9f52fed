"""Theory of a network on the rows of a table: no law of the inputs is assumed, the rows stand for theirs."""
