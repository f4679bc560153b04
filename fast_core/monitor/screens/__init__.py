"""What is shown of environments while they are stepped: what a frame is, and who wants one.

Nobody waits for anybody: whoever steps an environment publishes its newest frame on a board, and a
viewer says in words of shared memory which frames it wants, and how often.
"""
