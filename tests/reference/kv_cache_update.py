"""New keys and values in their slots of the caches; negative slots are skipped."""


def forward(key, value, key_cache, value_cache, slot_mapping, contiguous=False):
    """However the slots came about."""
    slots = slot_mapping.reshape(-1).astype(int)
    caches = []
    for new, cache in ((key, key_cache), (value, value_cache)):
        rows = cache.copy().reshape(cache.shape[0] * cache.shape[1], *cache.shape[2:])
        rows[slots[slots >= 0]] = new.reshape(slots.size, *cache.shape[2:])[slots >= 0]
        caches.append(rows.reshape(cache.shape))
    return tuple(caches)
