#pragma once

#include <atomic>

namespace weft::programs {

/// What any threads hand to one, which takes all that has come by then at once: one notice for
/// many. A node is the giver's, and has a `next` that is the list's until the node is taken.
/// Nothing is allocated.
template <class Node>
class HandoffList {
 public:
  /// True: there was none, so the thread that takes them has to be told.
  [[nodiscard]] bool push(Node& node) {
    Node* before = last_.load(std::memory_order_relaxed);
    do {
      node.next = before;
    } while (!last_.compare_exchange_weak(before, &node, std::memory_order_release,
                                          std::memory_order_relaxed));
    return before == nullptr;  // nothing of the node is touched: it may have ended
  }

  /// In the order in which they came. `act` may end its node.
  template <class Act>
  void take_all(Act act) {
    Node* first = nullptr;
    for (Node* node = last_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
      Node* const before = node->next;
      node->next = first;
      first = node;
      node = before;
    }
    while (first != nullptr) {
      Node& taken = *first;
      first = taken.next;
      act(taken);
    }
  }

 private:
  std::atomic<Node*> last_{nullptr};
};

}  // namespace weft::programs
