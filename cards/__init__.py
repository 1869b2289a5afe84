"""The Card registry: declare, versions, references, artifacts, bindings, and what a check may reach.

Everything here works on one SQL connection and one tenant. The Card language itself (what a Card
may say) lives in `wyrd.cards`; HTTP lives in `api`, and judging lives in `engine`.
"""
