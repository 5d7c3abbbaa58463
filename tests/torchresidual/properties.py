"""How the tests of properties are run; apart from the toys, which have to do without hypothesis on a GPU machine."""

from __future__ import annotations

from hypothesis import Phase, settings

# The same examples on every run and machine; how long one takes is nobody's business.
DETERMINISTIC = settings(
    derandomize=True, deadline=None, database=None, max_examples=50, phases=(Phase.generate, Phase.shrink)
)
