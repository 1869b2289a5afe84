"""Request and answer models, shared by client and server, and the JSON rules they obey.

Nothing here talks to a network or knows how a Card is judged.
"""
