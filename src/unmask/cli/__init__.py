"""The command line: one small file per verb. Heavy imports happen inside verbs, so that --help is instant."""
