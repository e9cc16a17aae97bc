"""Running the examples in the docstrings of a module."""

import doctest


def run_examples(module):
    """Run the examples of a module; return how many there were, and how many failed.

    Public classes and functions name ``chunkwise`` as their module, so they are looked for by name.
    """
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    found = {test.name: test for test in finder.find(module)}
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if getattr(value, "__module__", None) == "chunkwise":
            for test in finder.find(
                value, f"{module.__name__}.{name}", module=False, globs=vars(module).copy()
            ):
                found[test.name] = test
    for test in found.values():
        runner.run(test)
    return runner.summarize(verbose=False)
