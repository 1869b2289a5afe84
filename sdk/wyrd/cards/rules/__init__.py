"""The rules of declaration: what a Card that decodes must still satisfy, pure and offline.

Rules say what is wrong and where; files, lines and severity are the checking's affair.
Nothing here reads files, asks a server, or judges evidence.
"""
