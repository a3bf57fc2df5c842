"""The Kubernetes side: decoding objects, the client, the watch caches, the lease and what is written back.

Nothing here decides. Modules are imported one by one (`from extender_api.cluster import reflector`), so that decoding
objects needs neither aiohttp nor the Kubernetes client.
"""
