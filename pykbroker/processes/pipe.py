"""The pipe for the messages of a broker's process, as an option of its program."""

PIPE_OPTION = "--announce-fd"
"""The option with the descriptor of the pipe. Programs for brokers have it, and it is not in their help."""
