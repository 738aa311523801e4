#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What rsiw-doctor makes of this host: module, links, and what programs need. The answers are canned."""

import contextlib
import io
import json
import re
import shlex
import time
import unittest

from doctor_fake import RELEASE, TOP, Case
from doctor import link, main, module, user
from doctor.report import command
from doctor.system import Result, System


class Command(Case):
    def test_all_is_well(self):
        said = self.examine()
        self.assertEqual(self.status, 0, said)
        self.assertNotRegex(said, r"(?m)^(warn|FAIL|skip)")
        self.assertEqual(self.examine("--quiet"), "")

    def test_usage_has_its_status(self):
        for wrong in (["--port", "70000"], ["--memory", "0"], ["--nothing"], ["a/b"], ["--peer", "-x"],
                      ["--peer", "10.7.0.2:0"], ["--peer", "[fd07::2]:70000"]):
            with self.assertRaises(SystemExit) as raised, contextlib.redirect_stderr(io.StringIO()):
                main.parse(wrong)
            self.assertEqual(raised.exception.code, 64, wrong)

    def test_json(self):
        del self.system.files["/sys/module/rdma_ucm"]
        said = json.loads(self.examine("--json", "--quiet"))
        self.assertEqual(said, {"status": 2, "findings": [{
            "level": "FAIL", "topic": "modules", "text": "rdma_ucm is not loaded: librdmacm cannot connect or listen",
            "mend": ["sudo modprobe rdma_ucm"]}]})

    def test_warnings_only(self):
        self.report.warn("a", "b")
        self.assertEqual(self.report.status, 1)
        self.report.skip("a", "b")
        self.assertEqual(self.report.status, 1)
        self.report.fail("a", "b")
        self.assertEqual(self.report.status, 2)

    def test_a_fault_of_one_check_hides_no_other(self):
        self.system.commands["rdma -j link show"] = [7]
        del self.system.files["/etc/libibverbs.d/siw.driver"]
        said = self.examine()
        self.assertRegex(said, r"(?m)^warn doctor .*find_links")
        self.assertRegex(said, r"(?m)^FAIL provider")

    def test_foreign_text_is_one_harmless_line(self):
        self.report.fail("port", "a\nb\x1b[31m")
        self.assertEqual(self.report.text(), "FAIL port        a b [31m\n")

    def test_foreign_names_are_one_word_of_a_command(self):
        self.assertEqual(command("ip link set {} mtu {}", "eth0", 9), "ip link set eth0 mtu 9")
        for name in ("a;reboot", "$(reboot)", "`id`", "a'b", 'a"b', "a|b", "#a", "*"):
            self.assertEqual(shlex.split(command("ip link set {} up", name)), ["ip", "link", "set", name, "up"])
            # As whatever prints a command has it.
            self.setUp()
            self.system.commands["rdma -j link show"] = [{"ifname": "rsiw0", "state": "ACTIVE", "netdev": name}]
            self.system.commands[f"ip -j addr show dev {name}"] = [{"flags": []}]
            self.assertIn("sudo ip link set " + shlex.quote(name) + " up\n", self.examine())
            self.assertIn("sudo ip addr add ADDRESS/PREFIX dev " + shlex.quote(name) + " ", self.examine())
        self.report.fail("netdev", "down", "a\x1b[31m\nb   # c")
        self.assertEqual(self.report.findings[0].mend, ["a [31m b   # c"])

    def test_time_limit(self):
        self.assertEqual(System().run("sleep", "5", limit=0.1).status, 124)
        self.assertEqual(System().run_all([("sleep", "5"), ("true",)], limit=0.1)[0].status, 124)
        # Nor does what a command leaves behind hold anybody up.
        began = time.monotonic()
        self.assertEqual(System().run("sh", "-c", "sleep 5 & wait", limit=0.1).status, 124)
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual(System().run("there-is-no-such-command").status, 127)


class Module(Case):
    def test_series_are_those_of_kbuild(self):
        kbuild = re.search(r"^rsiw_series := (.*)$", (TOP / "Kbuild").read_text(), re.M)
        self.assertEqual(kbuild.group(1).split(), list(module.SERIES))

    def test_not_loaded(self):
        del self.system.files["/sys/module/rsiw"]
        self.finds(2, "FAIL module +rsiw is not loaded", "sudo modprobe rsiw")

    def test_other_kernel(self):
        self.system.release = lambda: "6.12.0-amd64"
        self.system.commands["modinfo -F vermagic rsiw"] = "6.12.0-amd64 SMP"
        self.finds(2, "FAIL kernel .*7.2 and 7.3.*6.12.0", "sudo apt install -t trixie-backports linux-image-$(dpkg")
        self.system.files["/etc/os-release"] = "ID=debian\nVERSION_CODENAME=forky\n"
        self.finds(2, "FAIL kernel", "sudo apt install linux-image-$(dpkg")

    def test_built_for_another(self):
        self.system.commands["modinfo -F vermagic rsiw"] = "7.2.1 SMP"
        self.finds(2, "FAIL module .*built for 7.2.1", "make KERNEL=$(uname -r) && make install")
        self.system.files["/var/lib/dpkg/info/rsiw.list"] = ""
        self.finds(2, "FAIL module .*built for 7.2.1", "sudo apt install rsiw-modules-$(uname -r)")

    def test_installed_for_another(self):
        del self.system.commands["modinfo -F vermagic rsiw"]
        self.system.files["/lib/modules/7.2.1/updates/dkms/rsiw.ko.xz"] = ""
        self.system.files["/usr/src/rsiw-1.0/dkms.conf"] = ""
        self.system.programs.add("dkms")
        self.finds(1, "warn module .*but for 7.2.1; what is loaded", "sudo dkms autoinstall -k $(uname -r)")

    def test_depmod_is_missing(self):
        del self.system.commands["modinfo -F vermagic rsiw"]
        self.system.files[f"/lib/modules/{RELEASE}/updates/rsiw.ko"] = ""
        self.finds(2, "FAIL module .*modprobe does not know it", "sudo depmod")

    def test_no_modinfo(self):
        self.system.commands["modinfo -F vermagic rsiw"] = Result(127)
        self.assertRegex(self.examine(), "(?m)^skip module .*no modinfo")
        self.assertEqual(self.status, 0)

    def test_secure_boot_refuses(self):
        del self.system.files["/sys/module/rsiw"]
        self.system.files["/sys/kernel/security/lockdown"] = "none [integrity] confidentiality"
        self.system.files[module.SECURE_BOOT] = "\6\0\0\0\1"
        self.system.commands["modinfo -F signer rsiw"] = ""
        self.finds(2, "FAIL module .*no signature, and Secure Boot is on", "sudo mokutil --import")

    def commands(self):
        return [one.partition("   #")[0] for one in module.sign_commands(self.system)]

    def test_a_signature(self):
        key = "sudo apt install dkms mokutil && sudo dkms generate_mok"
        enroll = "sudo mokutil --import /var/lib/dkms/mok.pub"
        tool = "sudo apt install -t trixie-backports linux-kbuild-7.3.4+deb13"
        # As make install has installed it.
        self.assertEqual(self.commands(), [key, enroll, tool, "make install KERNEL=$(uname -r)"])
        self.system.files |= {"/var/lib/dkms/mok.key": "", "/var/lib/dkms/mok.pub": "",
                              "/usr/lib/linux-kbuild-7.3.4+deb13/scripts/sign-file": ""}
        self.assertEqual(self.commands(), [enroll, "make install KERNEL=$(uname -r)"])
        # By DKMS, which knows an older version that has no source any more.
        self.system.programs.add("dkms")
        for version in ("0.9", "0.10~rc1", "0.10"):
            self.system.files[f"/usr/src/rsiw-{version}/dkms.conf"] = ""
        self.system.files["/var/lib/dkms/rsiw/0.11/source/dkms.conf"] = ""
        self.assertEqual(self.commands(), [
            enroll, "sudo dkms build --force rsiw/0.10 -k $(uname -r) && sudo dkms install --force rsiw/0.10 -k $(uname -r)"])
        # By a package for this kernel, which goes before DKMS.
        self.system.files[f"/usr/lib/rsiw/{RELEASE}/rsiw.ko"] = ""
        self.assertEqual(self.commands(), [enroll, "sudo dpkg-reconfigure rsiw-modules-$(uname -r)"])

    def test_order_of_versions(self):
        names = ["0.9.0~2026+1", "0.9.0", "0.9.0+1", "0.9.0.1", "0.10.0", "1.0"]
        self.assertEqual(sorted(reversed(names), key=module.by_version), names)

    def test_signed_module_is_loadable(self):
        del self.system.files["/sys/module/rsiw"]
        self.system.files["/sys/module/module/parameters/sig_enforce"] = "Y"
        self.system.commands["modinfo -F signer rsiw"] = "DKMS module signing key"
        said = self.examine("--quiet")
        self.assertRegex(said, "warn module .*wants signed modules.*DKMS module")
        self.assertIn("sudo modprobe rsiw", said)

    def test_no_lockdown(self):
        del self.system.files["/sys/module/rsiw"]
        self.system.files["/sys/kernel/security/lockdown"] = "[none] integrity confidentiality"
        self.finds(2, "FAIL module +rsiw is not loaded", "sudo modprobe rsiw")

    def test_crashed_kernel(self):
        self.system.files["/proc/sys/kernel/tainted"] = str(1 << 7)
        self.finds(1, "warn kernel .*crashed", "dmesg")

    def test_siw_beside(self):
        self.system.files["/sys/module/siw"] = ""
        self.finds(1, "warn siw", "sudo rmmod siw")

    def test_modules_for_programs(self):
        for name in ("ib_uverbs", "rdma_ucm"):
            self.setUp()
            del self.system.files[f"/sys/module/{name}"]
            self.finds(2, f"FAIL modules +{name}", f"sudo modprobe {name}")

    def test_modules_that_are_a_part_of_the_kernel(self):
        for name in ("ib_uverbs", "rdma_ucm"):
            del self.system.files[f"/sys/module/{name}"]
        self.system.files.update({"/sys/class/infiniband_verbs": "", "/sys/class/misc/rdma_cm": ""})
        self.assertNotIn("FAIL", self.examine())


class Links(Case):
    def address(self):
        return self.system.commands["ip -j addr show dev eth0"][0]

    def test_no_device(self):
        self.system.commands["rdma -j link show"] = []
        self.system.commands["ip -j route show default"] = [{"dst": "default", "dev": "eth7"}]
        self.finds(2, "FAIL link +there is no rsiw device", "sudo rdma link add rsiw0 type rsiw netdev eth7")

    def test_no_command_rdma(self):
        self.system.commands["rdma -j link show"] = Result(127)
        self.assertRegex(self.examine("--quiet"), "(?m)^FAIL link +there is no command rdma\n +sudo apt install iproute2")
        self.assertEqual(self.status, 2)

    def test_no_rdma_in_the_kernel(self):
        self.system.commands["rdma -j link show"] = Result(1, "", "Failed to open NETLINK_RDMA socket")
        self.finds(2, "FAIL link +rdma link show: Failed to open", "sudo modprobe ib_core")

    def test_file_whose_link_is_elsewhere(self):
        self.system.files["/etc/rsiw/links.d/rsiw0.conf"] = "netdev=eth1"
        self.finds(1, "warn links.d .*rsiw0 is not on eth1", "sudo rdma link delete rsiw0 && sudo rdma link add rsiw0")

    def test_devices_of_other_drivers_do_not_count(self):
        self.system.commands["rdma -j link show"] += [
            {"ifname": "siw0", "port": 1, "state": "DOWN", "netdev": "eth1"}]
        self.assertEqual([one.name for one in link.find(self.system, self.report)], ["rsiw0"])

    def test_wanted_device_is_missing(self):
        self.finds(2, "FAIL link +there is no rsiw device rsiw5", "sudo rdma link add rsiw5", "rsiw5")

    def test_wanted_device_is_of_another_driver(self):
        self.system.files["/sys/class/infiniband/siw0"] = ""
        self.finds(2, "FAIL link +siw0 is a device of another driver", "rdma link", "siw0")

    def test_down(self):
        self.address()["flags"] = ["BROADCAST"]
        self.finds(2, "FAIL netdev +eth0.*is down", "sudo ip link set eth0 up")

    def test_no_carrier(self):
        self.address()["flags"] = ["BROADCAST", "UP", "NO-CARRIER"]
        self.finds(2, "FAIL netdev .*no carrier", "ethtool eth0")

    def test_not_active(self):
        self.system.commands["rdma -j link show"][0]["state"] = "DOWN"
        self.finds(2, "FAIL link +rsiw0 is DOWN", "sudo rdma link delete rsiw0")

    def test_no_address(self):
        self.address()["addr_info"] = [{"family": "inet6", "local": "fe80::1", "scope": "link", "prefixlen": 64}]
        self.finds(2, "FAIL address +eth0 has no address", "sudo ip addr add")

    def test_other_namespace(self):
        del self.system.commands["rdma -j link show"][0]["netdev"]
        self.system.commands["ip -j netns list"] = [{"name": "blue"}]
        self.system.commands["ip netns exec blue rdma -j link show"] = [
            {"ifname": "rsiw0", "state": "ACTIVE", "netdev": "eth0"}]
        self.finds(2, "FAIL namespace +rsiw0 .*namespace blue", "sudo ip netns exec blue rsiw-doctor rsiw0")

    def test_exclusive_namespaces(self):
        self.system.commands["rdma system show"] = "netns exclusive copy-on-fork on"
        self.finds(2, "FAIL link .*rsiw1 in this network namespace", "sudo rdma link add rsiw1", "rsiw1")

    def test_unnamed_namespace(self):
        del self.system.commands["rdma -j link show"][0]["netdev"]
        self.finds(2, "FAIL namespace .*has no name", "lsns", "rsiw0")

    def test_other_namespace_for_an_ordinary_user(self):
        del self.system.commands["rdma -j link show"][0]["netdev"]
        self.system.root = False
        self.finds(2, "FAIL namespace .*only root", "sudo rsiw-doctor rsiw0", "rsiw0")

    def test_device_in_another_namespace_beside_one_here(self):
        self.system.files["/sys/class/infiniband/there/settings"] = ""
        self.system.commands["rdma -j link show"].append({"ifname": "there", "port": 1, "state": "ACTIVE"})
        self.assertRegex(self.examine(), "(?m)^skip namespace +there belongs")
        self.assertEqual(self.status, 0)

    def test_file_without_link(self):
        self.system.files["/etc/rsiw/links.d/second.conf"] = "#netdev=eth9\n netdev = eth1 \ncrc=0"
        self.finds(2, "FAIL links.d .*second is missing", "sudo rdma link add second type rsiw netdev eth1")

    def test_file_without_link_under_systemd(self):
        self.system.files["/etc/rsiw/links.d/b.conf"] = "netdev=eth1\nname=c"
        self.system.files["/run/systemd/system"] = ""
        self.system.files["/usr/lib/systemd/system/rsiw-link@.service"] = ""
        self.finds(2, "FAIL links.d .*: c is missing", "systemctl restart rsiw-link@b")

    def managed(self, name, text):
        self.system.files["/run/systemd/system"] = ""
        self.system.files[link.SERVICE] = ""
        self.system.files[f"/etc/rsiw/links.d/{name}.conf"] = text

    def test_a_link_with_a_service_is_made_anew_by_that(self):
        restart = "\n                 sudo systemctl daemon-reload && sudo systemctl restart rsiw-link@b\n"
        self.managed("b", "netdev=eth0\nname=rsiw0\ncrc=0")
        self.system.commands["rdma -j link show"][0]["state"] = "DOWN"
        # The service does not remove what somebody else has made.
        self.finds(2, "FAIL link +rsiw0 is DOWN", "sudo rdma link delete rsiw0 && " + restart.lstrip())
        self.system.files["/run/rsiw/b"] = "3"
        self.finds(2, "FAIL link +rsiw0 is DOWN", restart)
        # Without systemd there is no service.
        del self.system.files["/run/systemd/system"]
        self.finds(2, "FAIL link +rsiw0 is DOWN", "sudo rdma link delete rsiw0 && sudo rdma link add rsiw0")

    def test_a_link_on_another_device_than_its_file_says(self):
        self.managed("b", "netdev=eth1\nname=rsiw0")
        self.system.files["/run/rsiw/b"] = "3"
        self.finds(1, "warn links.d .*rsiw0 is not on eth1", "                 sudo systemctl daemon-reload && ")

    def test_wanted_link_that_has_a_service(self):
        self.managed("b", "netdev=eth1\nname=c")
        said = self.examine("--quiet", "c")
        self.assertEqual(said.count("sudo systemctl restart rsiw-link@b\n"), 2, said)
        self.assertNotIn("rdma link add", said)

    def test_file_with_a_name_that_no_link_can_have(self):
        self.managed("a b", "netdev=eth0")
        self.finds(2, "FAIL links.d .*a b.conf: no link can have", "sudo mv '/etc/rsiw/links.d/a b.conf' /etc/rsiw/links.d/NAME.conf")

    def test_file_with_link(self):
        self.system.files["/etc/rsiw/links.d/rsiw0.conf"] = "netdev=eth0"
        self.assertIn("rsiw0.conf: rsiw0 is there", self.examine())
        self.assertEqual(self.status, 0)

    def test_file_of_another_name(self):
        self.system.files["/etc/rsiw/links.d/x.conf"] = "netdev=eth0"
        self.finds(1, "warn links.d .*the device of eth0 is rsiw0, not x", "sudo rdma dev set rsiw0 name x")

    def test_file_without_network_device(self):
        self.system.files["/etc/rsiw/links.d/x.conf"] = "netdev=eth5"
        self.finds(2, "FAIL links.d .*no network device eth5", "ip link show")
        self.system.files["/etc/rsiw/links.d/x.conf"] = "crc=0"
        self.finds(2, "FAIL links.d .*names no network device", "x.conf")

    def test_port_mapper(self):
        self.system.files["/sys/class/infiniband/rsiw0/settings/port_mapper"] = "1"
        self.finds(2, "FAIL portmapper .*iwpmd does not run", "sudo iwpmd")
        self.system.running.add("iwpmd")
        self.assertEqual(self.examine("--quiet"), "")
        self.system.files["/sys/class/infiniband/rsiw0/settings/port_mapper"] = "0"
        self.assertIn("which does no harm", self.examine())


class User(Case):
    def test_provider(self):
        del self.system.files["/etc/libibverbs.d/siw.driver"]
        self.finds(2, "FAIL provider .*siw.driver", "echo 'driver siw' | sudo tee /etc/libibverbs.d/siw.driver")

    def test_provider_library(self):
        del self.system.files["/usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav34.so"]
        self.finds(2, "FAIL provider .*not installed", "ibverbs-providers")

    def test_librdmacm(self):
        del self.system.files["/usr/lib/x86_64-linux-gnu/librdmacm.so.1"]
        self.finds(2, "FAIL provider +librdmacm", "librdmacm1")

    def test_node_rights(self):
        self.system.locked.add("/dev/infiniband/uverbs0")
        self.finds(2, "FAIL nodes +tester may not .*uverbs0", "sudo groupadd --system --force rdma && sudo usermod -aG rdma tester ")
        said = self.examine()
        self.assertIn("""echo 'KERNEL=="uverbs*|rdma_cm", GROUP="rdma", MODE="0660"' | sudo tee /etc/udev/rules.d/99-rdma.rules""", said)
        self.assertIn("udevadm trigger", said)
        self.assertNotIn("chmod", said)
        self.system.groups["/dev/infiniband/uverbs0"] = "rdma"
        self.finds(2, "FAIL nodes", "\n                 sudo usermod -aG rdma tester ")
        self.assertNotIn("groupadd", self.examine())

    def test_node_missing(self):
        del self.system.files["/dev/infiniband/rdma_cm"]
        self.finds(2, "FAIL nodes .*rdma_cm is missing", "udevadm trigger")

    def limit(self, soft, hard):
        self.system.privileged, self.system.limits = False, (soft, hard)

    def test_memlock(self):
        self.limit(65536, None)
        self.finds(2, "FAIL memlock +tester may lock 64 KiB", "ulimit -l unlimited")
        self.limit(8 << 20, 8 << 20)
        self.finds(1, "warn memlock +tester may lock 8 MiB", "sudo prlimit --pid $$ --memlock=unlimited")
        self.finds(2, "FAIL memlock", f"--memlock={9 << 20}", "--memory", "9")
        self.assertEqual(self.examine("--quiet", "--memory", "8"), "")
        self.limit(None, None)
        self.assertEqual(self.examine("--quiet"), "")

    def test_limits_are_for_the_user_only(self):
        file = " | sudo tee /etc/security/limits.d/rsiw-tester.conf "
        for hard, arguments, line in ((64 << 10, (), "'tester - memlock 65536'"),
                                      (64 << 10, ("--memory", "9"), "'tester - memlock 9216'"),
                                      (None, ("--memory", "9"), "'tester soft memlock 9216'"),
                                      (1 << 30, (), "'tester soft memlock 65536'")):
            self.limit(64 << 10, hard)
            self.finds(2, "FAIL memlock", "echo " + line + file, *arguments)
        self.assertNotIn("'* ", self.examine())

    def test_files_of_limits(self):
        self.limit(65536, None)
        self.system.files["/etc/security/limits.d/mpi.conf"] = "#* - memlock 1\n@mpi  hard  memlock  64\n"
        self.system.files["/etc/security/limits.d/x.conf"] = "#* - memlock 1\n* - nofile 9\n"
        self.finds(2, r"FAIL memlock .*64 KiB of memory \(limits are in /etc/security/limits.d/mpi.conf\)", "ulimit")

    def test_limit_of_services(self):
        self.system.files["/run/systemd/system"] = ""
        self.system.commands["systemctl show -p DefaultLimitMEMLOCK"] = "DefaultLimitMEMLOCK=8388608\n"
        self.assertRegex(self.examine(), "(?m)^ok +memlock +services of systemd may lock 8 MiB")
        self.system.commands["systemctl show -p DefaultLimitMEMLOCK"] = "DefaultLimitMEMLOCK=infinity\n"
        self.assertNotIn("services", self.examine())

    def test_pinned_memory(self):
        self.limit(100 << 20, None)
        self.system.files["/proc/77/status"] = "Name:\tmpi\nVmPin:\t   90000 kB"
        self.finds(1, "warn memlock +mpi .process 77. has pinned 87 MiB of 100 MiB", "sudo prlimit --pid 77")

    def test_cgroup(self):
        self.system.files["/proc/self/cgroup"] = "0::/job/inner"
        self.system.files["/sys/fs/cgroup/job/rdma.max"] = "rsiw0 hca_handle=2 hca_object=max"
        self.system.files["/sys/fs/cgroup/job/rdma.current"] = "rsiw0 hca_handle=1 hca_object=9"
        self.finds(1, "warn cgroup .*/job has 1 of at most 2 hca_handle", "hca_handle=max")
        self.system.files["/sys/fs/cgroup/job/rdma.current"] = "rsiw0 hca_handle=2 hca_object=9"
        self.finds(2, "FAIL cgroup .*2 of at most 2", "sudo tee /sys/fs/cgroup/job/rdma.max")

    def test_size(self):
        self.assertEqual([user.size(n) for n in (None, 65536, 8 << 20)], ["unlimited", "64 KiB", "8 MiB"])


class Tls(Case):
    SETTINGS = "/sys/class/infiniband/rsiw0/settings/"

    def setUp(self):
        super().setUp()
        self.system.files[self.SETTINGS + "tls"] = "3"
        self.system.files[self.SETTINGS + "tls_names"] = "\n"
        self.system.programs.add("tlshd")
        self.system.running.add("tlshd")

    def psk(self, configuration, keyring):
        self.system.files |= {self.SETTINGS + "tls_psk": "1", "/etc/tlshd.conf": configuration, "/proc/keys": keyring}

    def test_certificates(self):
        self.assertRegex(self.examine(), r"(?m)^ok   tls .*tls=3, and tlshd runs")
        self.assertEqual(self.status, 0)

    def test_no_tlshd(self):
        self.system.running.clear()
        self.finds(2, "tlshd does not run", "sudo systemctl enable --now tlshd")
        self.system.programs.remove("tlshd")
        self.finds(2, "tlshd does not run", "sudo apt install ktls-utils")
        self.system.files[self.SETTINGS + "tls"] = "0"
        self.assertEqual(self.examine("--quiet"), "")

    def test_names_without_tls(self):
        self.system.files |= {self.SETTINGS + "tls": "0", self.SETTINGS + "tls_names": "hosta\n"}
        self.finds(2, "nobody can connect", "settings/tls")

    def test_keys(self):
        ring = "03b5 I------     1 perm 3f3f0000     0     0 keyring   .rsiw: "
        for names in (".rsiw", " .nvme; .rsiw ;", ".rsiw;a"):
            self.psk(f"[authenticate]\nkeyrings={names}\n", ring + "2\n")
            self.assertRegex(self.examine(), r"(?m)^ok   tls .*there are keys: 2$")
        for names in ("", ".nvme", "x.rsiw", ".rsiw2"):
            self.psk(f"[authenticate]\nkeyrings={names}\n", ring + "2\n")
            self.finds(2, "does not name the keyring", "keyrings=.rsiw")
        self.psk("keyrings=.rsiw\n", ring + "empty\n")
        self.finds(2, "has no key", "sudo editor /etc/rsiw/keys")
        self.system.files["/etc/rsiw/keys"] = ""
        self.finds(2, "has no key", "sudo rsiw-key load")
        self.psk("keyrings=.rsiw\n", "")
        self.assertRegex(self.examine(), r"(?m)^skip tls .*only root")


if __name__ == "__main__":
    unittest.main()
