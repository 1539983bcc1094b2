def write_page(rows):
    return ""


def table_file(rows, path):
    pass
