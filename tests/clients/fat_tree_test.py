#!/usr/bin/env python3
"""The judgement of fat_tree.py over counters, tried on a small tree whose books balance, and with each way of breaking them."""
import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fat_tree  # noqa: E402

# h1 - s1 - s3 - s2 - h4, h2 beside h1, a second spine s4 that nobody uses. 7 packets one way, 5 back.
LINKS = [(("h1", 1), ("s1", 1), 7, 5), (("h2", 1), ("s1", 2), 0, 0), (("s1", 3), ("s3", 1), 7, 5), (("s1", 4), ("s4", 1), 0, 0),
         (("s3", 2), ("s2", 3), 7, 5), (("s4", 2), ("s2", 4), 0, 0), (("s2", 1), ("h4", 1), 7, 5)]
HOSTS = ("h1", "h4")


def tree():
    ports = {}
    for one, other, there, back in LINKS:
        for here, far, out, into in ((one, other, there, back), (other, one, back, there)):
            ports[here] = {"peer": far, "is_switch": here[0].startswith("s"), "xmit_packets": out, "rcv_packets": into,
                           "xmit_data": 10 * out, "rcv_data": 10 * into, "xmit_discards": 0}
    return ports


class Counters(unittest.TestCase):
    def broken(self, node, port, **changes):
        ports = copy.deepcopy(tree())
        for counter, change in changes.items():
            ports[node, port][counter] += change
        return "\n".join(fat_tree.check_counters(ports, HOSTS))

    def test_balanced_books_have_no_problem(self):
        self.assertEqual(fat_tree.check_counters(tree(), HOSTS), [])

    def test_a_packet_lost_on_a_link_is_found(self):
        self.assertIn("rcv_packets is 6", self.broken("s3", 1, rcv_packets=-1))

    def test_octets_lost_on_a_link_are_found(self):
        self.assertIn("rcv_data is 69", self.broken("s3", 1, rcv_data=-1))

    def test_a_packet_that_vanishes_inside_a_switch_is_found_unless_it_is_counted_as_discarded(self):
        ports = tree()
        for key, counter in ((("s1", 3), "xmit_packets"), (("s3", 1), "rcv_packets")):
            ports[key][counter] += 1
        self.assertIn("s3: 13 packets came in, 12 went out, 0 were discarded", fat_tree.check_nodes(ports, HOSTS, 0))
        ports["s3", 2]["xmit_discards"] += 1
        self.assertFalse([problem for problem in fat_tree.check_nodes(ports, HOSTS, 0) if problem.startswith("s3")])

    def test_traffic_at_a_host_that_has_none_is_found(self):
        self.assertIn("(h2, 1) has traffic", self.broken("h2", 1, rcv_packets=1))

    def test_silence_is_found(self):
        silent = {key: {**port, **dict.fromkeys(("xmit_packets", "rcv_packets", "xmit_data", "rcv_data"), 0)} for key, port in tree().items()}
        problems = "\n".join(fat_tree.check_counters(silent, HOSTS))
        for words in ("h1 sent 0", "leaf s1 carried no packet", "no spine (s3, s4) carried a packet"):
            self.assertIn(words, problems)

    def test_hosts_on_one_leaf_are_found(self):
        self.assertIn("h1 and h2 are on the same leaf s1", "\n".join(fat_tree.check_counters(tree(), ("h1", "h2"))))

    def test_differences_leave_what_is_no_counter(self):
        later = tree()
        later["h1", 1]["xmit_packets"] += 3
        delta = fat_tree.difference(tree(), later)
        self.assertEqual((delta["h1", 1]["xmit_packets"], delta["h1", 1]["peer"], delta["s1", 1]["is_switch"]), (3, ("s1", 1), True))


if __name__ == "__main__":
    unittest.main()
