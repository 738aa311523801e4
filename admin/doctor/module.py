# SPDX-License-Identifier: GPL-2.0
"""The module: built and installed for this kernel, loaded, allowed; and the modules that programs need beside it."""

import re

from .report import command

# The series of Linux that Kbuild accepts.
SERIES = ("7.2", "7.3")
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# Folders of /lib/modules/RELEASE where modules are that do not come with the kernel.
FOLDERS = ("updates", "updates/dkms", "extra", "kernel/extra")
# DKMS' key, with which packages and make install sign, too.
MOK = "/var/lib/dkms/mok"
TAINT = {7: "it has crashed (oops)", 9: "it has warned of a fault of its own", 5: "memory was corrupted"}


def loaded(system, name):
    return system.exists(f"/sys/module/{name}")


def apt_install(system, what):
    """Debian 13's kernel is that of its backports; Debian testing's is its own."""
    release = system.read("/etc/os-release") or ""
    target = "" if re.search(r"^VERSION_CODENAME=(forky|sid)$", release, re.M) else "-t trixie-backports "
    return f"sudo apt install {target}{what}"


def check(system, report):
    check_kernel(system, report)
    is_loaded = loaded(system, "rsiw")
    installed = check_installed(system, report, is_loaded)
    if is_loaded:
        taint = system.read("/sys/module/rsiw/taint") or ""
        note = " (unsigned)" if "E" in taint else ""
        report.ok("module", f"rsiw is loaded{note}")
    elif installed:
        check_loadable(system, report)
    check_helpers(system, report)
    check_siw(system, report)
    return is_loaded


def check_kernel(system, report):
    release = system.release()
    series = ".".join(release.split(".")[:2])
    if series not in SERIES:
        report.fail("kernel", f"rsiw is made for Linux {' and '.join(SERIES)}, and this is {release}",
                    apt_install(system, "linux-image-$(dpkg --print-architecture)   # and reboot into it"))
    else:
        report.ok("kernel", f"Linux {release}")
    tainted = int(system.read("/proc/sys/kernel/tainted") or 0)
    for bit, what in TAINT.items():
        if tainted >> bit & 1:
            report.warn("kernel", f"the kernel is tainted: {what}; what follows from that is no fault of the set-up",
                        "sudo dmesg --level=emerg,alert,crit,err,warn   # why; a reboot mends it")


def build_command(system):
    if system.has("dkms") and system.glob("/usr/src/rsiw-*/dkms.conf"):
        return "sudo dkms autoinstall -k $(uname -r) && sudo depmod"
    if system.glob("/var/lib/dpkg/info/rsiw.list"):
        return ("sudo apt install rsiw-modules-$(uname -r)   # or, in rsiw's source tree: make deb KERNELS=$(uname -r) && "
                "sudo apt install ./build/deb/rsiw-modules-$(uname -r)_*.deb")
    return "make KERNEL=$(uname -r) && make install KERNEL=$(uname -r)   # in rsiw's source tree"


def check_installed(system, report, is_loaded):
    """Whether modprobe finds a module that fits this kernel."""
    release = system.release()
    found = system.run("modinfo", "-F", "vermagic", "rsiw")
    if found.status == 0 and found.out.split():
        magic = found.out.split()[0]
        if magic == release:
            report.ok("module", f"rsiw is installed for {release}")
            return True
        report.fail("module", f"the installed rsiw was built for {magic}, and {release} runs", build_command(system))
        return False
    if found.status == 127:
        report.skip("module", "there is no modinfo, so nobody knows whether rsiw is installed", "sudo apt install kmod")
        return False
    files = [path for folder in FOLDERS for path in system.glob(f"/lib/modules/*/{folder}/rsiw.ko*")]
    if any(path.split("/")[3] == release for path in files):
        report.fail("module", "rsiw is installed, but modprobe does not know it", "sudo depmod")
        return False
    others = sorted({path.split("/")[3] for path in files})
    text = f"rsiw is not installed for the running kernel {release}"
    if others:
        text += f", but for {', '.join(others)}"
    if is_loaded:
        report.warn("module", text + "; what is loaded is gone after a reboot", build_command(system))
    else:
        report.fail("module", text, build_command(system))
    return False


def secure_boot(system):
    value = system.read_bytes(SECURE_BOOT)
    return bool(value) and value[-1] == 1


def by_version(text):
    """Sorts as dpkg does, as far as rsiw's versions need it: "1.0~1" comes before "1.0", and "1.0+1" behind."""
    parts = [(3, int(part)) if part.isdigit() else (0 if part.startswith("~") else 2, part)
             for part in re.findall(r"\d+|[^\d.]+", text)]
    return [*parts, (1,)]


def sign_commands(system):
    """How the module gets a signature. Whoever has installed it signs it with the key, if that is there."""
    release = system.release()
    commands = []
    if not system.exists(MOK + ".key") or not system.exists(MOK + ".pub"):
        commands.append("sudo apt install dkms mokutil && sudo dkms generate_mok   # makes a key")
    commands.append(f"sudo mokutil --import {MOK}.pub   # asks for a password; reboot, and enroll the key")
    kbuild = f"linux-kbuild-{release.partition('-')[0]}"
    if not system.exists(f"/usr/lib/{kbuild}/scripts/sign-file"):
        commands.append(command(apt_install(system, "{}   # signs with it"), kbuild))
    sources = [path.split("/")[3].removeprefix("rsiw-") for path in system.glob("/usr/src/rsiw-*/dkms.conf")]
    if system.exists(f"/usr/lib/rsiw/{release}/rsiw.ko"):
        commands.append("sudo dpkg-reconfigure rsiw-modules-$(uname -r)")
    elif system.has("dkms") and sources:
        which = f"rsiw/{max(sources, key=by_version)}"
        # DKMS signs what it builds, so that has to be built anew.
        commands.append(command("sudo dkms build --force {} -k $(uname -r) && sudo dkms install --force {} -k $(uname -r)", which, which))
    else:
        commands.append("make install KERNEL=$(uname -r)   # in rsiw's source tree")
    return commands


def check_loadable(system, report):
    """It is installed and not loaded: either nobody has loaded it, or the kernel refuses it."""
    lockdown = re.search(r"\[(\w+)\]", system.read("/sys/kernel/security/lockdown") or "")
    locked = lockdown and lockdown.group(1) != "none"
    enforced = system.read("/sys/module/module/parameters/sig_enforce") == "Y"
    if locked or enforced:
        signer = system.run("modinfo", "-F", "signer", "rsiw").out.strip()
        why = "Secure Boot is on" if secure_boot(system) else (
            f"the kernel is locked down ({lockdown.group(1)})" if locked else "the kernel wants signed modules")
        if not signer:
            report.fail("module", f"rsiw is not loaded and has no signature, and {why}: it will be refused",
                        *sign_commands(system))
            return
        report.warn("module", f"{why}: rsiw has the signature of '{signer}', which the machine has to know",
                    "mokutil --list-enrolled")
    report.fail("module", "rsiw is not loaded", "sudo modprobe rsiw")


def check_helpers(system, report):
    # What each brings tells of one that is a part of the kernel. (rsiw cannot be loaded without iw_cm.)
    for name, brings, why in (("ib_uverbs", "/sys/class/infiniband_verbs", "programs cannot open RDMA devices"),
                              ("rdma_ucm", "/sys/class/misc/rdma_cm", "librdmacm cannot connect or listen")):
        if loaded(system, name) or system.exists(brings):
            report.ok("modules", f"{name} is loaded")
        else:
            report.fail("modules", f"{name} is not loaded: {why}", f"sudo modprobe {name}")


def check_siw(system, report):
    if not loaded(system, "siw"):
        return
    report.warn("siw", "siw is loaded beside rsiw: both want the same TCP ports where both have devices",
                "sudo rmmod siw")
