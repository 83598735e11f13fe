from __future__ import annotations

import errno
import os
import struct

import pytest

from tools.sandbox.seccomp import Filter, UnsupportedError, build

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OTHERS = {"x86_64": 0x40000003, "aarch64": 0x40000028}
_NUMBERS = {
    "x86_64": {"read": 0, "openat": 257, "socket": 41, "socketpair": 53, "clone": 56, "ioctl": 16, "mount": 165,
               "io_uring_setup": 425, "connect": 42, "rename": 82, "sendto": 44, "kill": 62, "truncate": 76,
               "fsetxattr": 190, "clone3": 435, "prlimit64": 302, "unlinkat": 263, "fcntl": 72, "listen": 50,
               "file_getattr": 468, "file_setattr": 469, "later": 470},
    "aarch64": {"read": 63, "openat": 56, "socket": 198, "socketpair": 199, "clone": 220, "ioctl": 29, "mount": 40,
                "io_uring_setup": 425, "connect": 203, "renameat2": 276, "sendto": 206, "kill": 129, "truncate": 45,
                "fsetxattr": 7, "clone3": 435, "prlimit64": 261, "unlinkat": 35, "fcntl": 25, "listen": 201,
                "file_getattr": 468, "file_setattr": 469, "later": 470},
}  # fmt: skip


def _run(made: Filter, architecture: int, number: int, *arguments: int) -> str:
    """Run a filter as the kernel does; what it returns, in words."""
    data = struct.pack("=iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = list(struct.iter_unpack("=HBBI", made.code))
    at, value = 0, 0
    while True:
        code, yes, no, operand = lines[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("=I", data, operand)[0]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return _in_words(operand)
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += yes if holds else no


def _in_words(result: int) -> str:
    if result & 0xFFFF0000 == 0x00050000:
        return errno.errorcode[result & 0xFFFF]
    return {0x7FFF0000: "allow", 0x7FC00000: "ask", 0x80000000: "kill"}[result]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("read", (), "allow"),
        ("openat", (0, 0, os.O_RDONLY), "allow"),
        ("openat", (0, 0, os.O_WRONLY), "ask"),
        ("openat", (0, 0, os.O_RDONLY | os.O_CREAT), "ask"),
        ("connect", (), "ask"),
        ("unlinkat", (), "ask"),
        ("socket", (1, 1 | os.O_CLOEXEC, 0), "allow"),
        ("socket", (1, 2, 0), "EACCES"),
        ("socket", (2, 1, 6), "allow"),
        ("socket", (10, 1, 132), "EACCES"),
        ("socket", (2, 2, 0), "EACCES"),
        ("socket", (16, 3, 0), "allow"),
        ("socket", (16, 3, 9), "EACCES"),
        ("socket", (17, 3, 0), "EACCES"),
        ("socketpair", (1, 1, 0), "allow"),
        ("socketpair", (1, 2 | os.O_NONBLOCK, 0), "EPERM"),
        ("sendto", (3, 0, 0, 0), "allow"),
        ("sendto", (3, 0, 0, 0x20000000), "EPERM"),
        ("clone", (0x11,), "allow"),
        ("clone", (0x10000011,), "EPERM"),
        ("clone3", (), "ENOSYS"),
        ("ioctl", (0, 0x5413), "allow"),
        ("ioctl", (0, 0x5412), "EPERM"),
        # The kernel looks at the lower half alone.
        ("ioctl", (0, 0x1_0000_5412), "EPERM"),
        ("mount", (), "EPERM"),
        ("io_uring_setup", (), "EPERM"),
        ("fsetxattr", (), "EOPNOTSUPP"),
        ("file_setattr", (), "EOPNOTSUPP"),
        ("file_getattr", (), "allow"),
        ("later", (), "ENOSYS"),
        ("listen", (3, 5), "ask"),
        ("prlimit64", (0,), "allow"),
        ("prlimit64", (77,), "EPERM"),
        ("kill", (), "allow"),
        ("truncate", (), "allow"),
    ],
)
def test_calls_are_judged(machine: str, call: str, arguments: tuple[int, ...], expected: str) -> None:
    made = build(network=False, listing=False, abi=7, machine=machine)
    found = _run(made, _ARCHITECTURES[machine], _NUMBERS[machine][call], *arguments)
    assert found.replace("ENOTSUP", "EOPNOTSUPP") == expected.replace("ENOTSUP", "EOPNOTSUPP")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_older_kernels_get_more(machine: str) -> None:
    made = build(network=False, listing=False, abi=1, machine=machine)
    numbers, architecture = _NUMBERS[machine], _ARCHITECTURES[machine]
    assert _run(made, architecture, numbers["kill"]) == "ask"
    assert _run(made, architecture, numbers["truncate"]) == "EACCES"
    assert _run(made, architecture, numbers["openat"], 0, 0, os.O_RDONLY | os.O_TRUNC) == "EACCES"
    assert _run(made, architecture, numbers["openat"], 0, 0, os.O_WRONLY | os.O_TRUNC) == "ask"
    assert _run(made, architecture, numbers["fcntl"], 0, 8) == "EPERM"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_network_and_the_list_of_folders_can_be_given(machine: str) -> None:
    made = build(network=True, listing=True, abi=7, machine=machine)
    numbers, architecture = _NUMBERS[machine], _ARCHITECTURES[machine]
    assert _run(made, architecture, numbers["socket"], 2, 2, 0) == "allow"
    assert _run(made, architecture, numbers["listen"], 3, 5) == "allow"
    assert _run(made, architecture, numbers["socket"], 1, 2, 0) == "EACCES"
    assert _run(made, architecture, numbers["openat"], 0, 0, os.O_RDONLY | os.O_DIRECTORY) == "ask"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_of_other_architectures_end_the_program(machine: str) -> None:
    made = build(network=True, listing=False, abi=7, machine=machine)
    assert _run(made, _OTHERS[machine], 1) == "kill"


def test_the_other_numbering_of_x86_is_not_there() -> None:
    made = build(network=True, listing=False, abi=7, machine="x86_64")
    assert _run(made, _ARCHITECTURES["x86_64"], 0x40000000 + 257) == "ENOSYS"


def test_what_is_asked_has_a_name() -> None:
    made = build(network=False, listing=False, abi=7, machine="aarch64")
    assert made.calls[56] == "openat"
    assert made.calls[276] == "renameat2"
    assert "rename" not in made.calls.values()


def test_other_machines_have_no_filter() -> None:
    with pytest.raises(UnsupportedError, match="riscv64"):
        build(network=False, listing=False, abi=7, machine="riscv64")
