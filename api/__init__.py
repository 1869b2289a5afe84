"""HTTP: the application, its routes, authentication, problem documents, and the inline verify.

Routes translate between the wire models and the rooms below; no rule of judgement, no SQL and
no Card grammar lives here.
"""
