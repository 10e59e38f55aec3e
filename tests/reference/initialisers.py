def contents(config):
    return {}
