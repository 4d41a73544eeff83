"""The jobs of the pipeline, a file for each, and what only one of them needs.

1. A job takes an open session and returns a report. It neither prints nor exits; `say` is called with its progress.
2. Jobs do not import each other, except for the format of the archive. `decode` is an archive with another
   sink.
"""
