"""The console blocks of docs/guide, run: what a page shows is what its commands say."""
import os
import pathlib
import re
import subprocess

import weft_clients

SECONDS = 60  # of a command


def check(test, page, folder):
    """Each command of the guide's console blocks, in an empty folder, on the fabric that has no name; how many there are."""
    weft = weft_clients.weft_command()
    environment = {**os.environ, "WEFT_FABRIC": f"guide-{os.getpid()}", "PATH": f"{pathlib.Path(weft).parent}:{os.environ['PATH']}"}
    test.addCleanup(subprocess.run, [weft, "down"], env=environment, capture_output=True)
    shown = 0
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, wanted = part.partition("\n")
            with open(folder / "said", "w+", encoding="utf-8") as said:  # a file: what stays in the background keeps it
                subprocess.run(["sh", "-c", command], stdout=said, stderr=said, stdin=subprocess.DEVNULL, timeout=SECONDS, env=environment, cwd=folder)
                said.seek(0)
                pattern = ".*".join(map(re.escape, wanted.split("...")))
                test.assertRegex(said.read(), re.compile(rf"\A{pattern}", re.DOTALL), command)
            shown += 1
    return shown
