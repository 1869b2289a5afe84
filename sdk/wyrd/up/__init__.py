"""Starting server processes: `wyrd up` (Temporal, API and worker together), `serve` and `worker`.

Here live the home folder and its lock, ports, and the supervision of child processes. No server
code is imported: it starts in children that have the server rooms on their path.
"""
