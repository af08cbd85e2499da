#pragma once

#include "base/assert.h"

namespace weft {

/// Links of an object that can be in one list per tag: derive from `ListHook<Tag>` once for each
/// list.
template <class Tag>
class ListHook {
 public:
  ListHook() = default;
  ~ListHook() {
    WEFT_DEBUG_ASSERT(!is_linked(), "an object was destroyed while a list still holds it");
  }
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;

  [[nodiscard]] bool is_linked() const { return next_ != nullptr; }

 private:
  template <class, class>
  friend class IntrusiveList;

  ListHook* next_ = nullptr;
  ListHook* previous_ = nullptr;
};

/// A doubly linked list of objects that contain their own links: constant time, no allocation. Not
/// thread-safe.
template <class T, class Tag>
class IntrusiveList {
 public:
  IntrusiveList() { head_.next_ = head_.previous_ = &head_; }
  ~IntrusiveList() {
    while (!empty()) {
      pop_front();
    }
    head_.next_ = head_.previous_ = nullptr;
  }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  [[nodiscard]] bool empty() const { return head_.next_ == &head_; }
  [[nodiscard]] T& front() {
    WEFT_DEBUG_ASSERT(!empty(), "the list has a first member");
    return static_cast<T&>(*head_.next_);
  }

  void push_back(T& object) {
    ListHook<Tag>& hook = object;
    WEFT_DEBUG_ASSERT(!hook.is_linked(), "an object is in one list at a time");
    hook.next_ = &head_;
    hook.previous_ = head_.previous_;
    head_.previous_->next_ = &hook;
    head_.previous_ = &hook;
  }

  static void remove(T& object) {
    ListHook<Tag>& hook = object;
    WEFT_DEBUG_ASSERT(hook.is_linked(), "the object is in a list");
    hook.previous_->next_ = hook.next_;
    hook.next_->previous_ = hook.previous_;
    hook.next_ = hook.previous_ = nullptr;
  }

  T& pop_front() {
    T& object = front();
    remove(object);
    return object;
  }

  /// Moves all objects of `other` to the front or back of this list, in order.
  void splice_front(IntrusiveList& other) { splice(head_.next_, other); }
  void splice_back(IntrusiveList& other) { splice(&head_, other); }

  /// Calls `visit(object)` for each object; `visit` may remove that object.
  template <class Visit>
  void for_each(Visit visit) {
    for (ListHook<Tag>* hook = head_.next_; hook != &head_;) {
      ListHook<Tag>* next = hook->next_;
      visit(static_cast<T&>(*hook));
      hook = next;
    }
  }

 private:
  void splice(ListHook<Tag>* before, IntrusiveList& other) {
    if (other.empty()) {
      return;
    }
    ListHook<Tag>* const first = other.head_.next_;
    ListHook<Tag>* const last = other.head_.previous_;
    first->previous_ = before->previous_;
    before->previous_->next_ = first;
    last->next_ = before;
    before->previous_ = last;
    other.head_.next_ = other.head_.previous_ = &other.head_;
  }

  ListHook<Tag> head_;
};

}  // namespace weft
