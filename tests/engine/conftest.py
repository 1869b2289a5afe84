"""Property tests here state rules, not speeds: a busy machine must not fail them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rules", deadline=None)
settings.load_profile("rules")
