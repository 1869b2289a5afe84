"""What runs in the sandboxed processes, beside the untrusted code.

Here live the processes that fork once a call, the determinism rules and the answer to one call, in the
standard library (and the WebAssembly runtime) alone: nothing of the project is imported, only this folder is
visible inside.
"""
