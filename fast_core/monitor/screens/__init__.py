"""What is shown of environments while they are stepped: as which picture, how often, and to whom.

Nobody waits for anybody: whoever steps an environment publishes its newest frame on a board
(`fast_core.run.frame`), and a viewer says in words of shared memory which frames it wants, and how
often (`fast_core.run.watching`).
"""
