#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hca/hca.h"

namespace weft::hca {

/// Owns all objects of one kind. They are handed out as raw pointers and freed with the HCA at the
/// latest, as closing a device does. Each has a number, from 1 on, which is used again after it was
/// freed. Not thread-safe: guarded by Hca::State::objects.
template <class T>
class ObjectPool {
 public:
  T* add(std::unique_ptr<T> object) {
    T* const raw = object.get();
    std::uint32_t number = static_cast<std::uint32_t>(objects_.size()) + 1;
    if (!free_numbers_.empty()) {
      number = free_numbers_.back();
      free_numbers_.pop_back();
    }
    objects_.emplace(raw, Numbered{.number = number, .object = std::move(object)});
    return raw;
  }
  void free(T& object) {
    const auto found = objects_.find(&object);
    if (found != objects_.end()) {
      free_numbers_.push_back(found->second.number);
      objects_.erase(found);
    }
  }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  /// 0: it is none of these.
  [[nodiscard]] std::uint32_t number_of(const T* object) const {
    const auto found = objects_.find(const_cast<T*>(object));
    return found == objects_.end() ? 0 : found->second.number;
  }
  /// Calls `visit(T&, number)` for each, in no order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [raw, numbered] : objects_) {
      visit(*raw, numbered.number);
    }
  }

 private:
  struct Numbered {
    std::uint32_t number{};
    std::unique_ptr<T> object;
  };
  std::unordered_map<T*, Numbered> objects_;
  std::vector<std::uint32_t> free_numbers_;
};

/// Numbers of work queues appear in completions beside QPNs, and must differ from them. QPNs of a
/// process contain its slot; in slot 0, the host's own, only QP0 and QP1 are used
/// (base/process_slot.h).
inline constexpr std::uint32_t kFirstWorkQueue = 0x2000;

/// The objects of an Hca. `objects` guards creation, destruction and all members here except the
/// ports and the QP slots: a slot is read without a lock, since the driver serialises deliveries
/// with destroy_qp. Lock order: `objects`, then a QP's locks, then `ports_lock`.
struct Hca::State {
  State(const HcaConfiguration& configuration_, HcaEvents& events_)
      : configuration(configuration_),
        events(events_),
        objects(configuration_.lock_policy),
        memory(configuration_.limits.max_mr, configuration_.seed, configuration_.lock_policy,
               configuration_.user_memory, configuration_.limits.max_mw),
        ports_lock(configuration_.lock_policy),
        qps(configuration_.limits.max_qp),
        wqs(configuration_.limits.max_wq),
        xrc_srqs(configuration.first_qpn.value(), configuration_.limits.max_srq) {}

  /// Caller must hold `objects`, which keeps QPs from being created or destroyed, or be counted in
  /// `key_fences`, for which destroy_qp() waits.
  template <class Visit>
  void each_qp(Visit visit) {
    for (auto& slot : std::span{qps}.first(used_qps.load(std::memory_order_acquire))) {
      if (Qp* const qp = slot.load(std::memory_order_seq_cst); qp != nullptr) {
        visit(*qp);
      }
    }
  }

  HcaConfiguration configuration;
  HcaEvents& events;
  mutable PolicyLock objects;
  MemoryTable memory;
  mutable PolicyLock ports_lock;        // innermost lock: may be taken with a QP's lock held
  std::array<PortAttributes, 3> ports;  // by port number; an HCA has one or two ports

  std::vector<std::atomic<Qp*>> qps;  // index: QPN - first_qpn
  /// QPs that packets call by another number than their own, from create to destroy.
  struct ExternalNumber {
    std::atomic<std::uint32_t> number{};  // not changed while there is a QP
    std::atomic<Qp*> qp{};
  };
  std::array<ExternalNumber, 8> external_numbers;  // policy: QP0 and QP1 of each port, and some
  std::uint32_t next_qp{};
  std::uint32_t qp_count{};
  std::atomic<std::uint32_t> used_qps{};    // slots before this one have had a QP
  std::atomic<std::uint32_t> key_fences{};  // threads in Hca::wait_for_responders()
  /// A place for a QP with an external number; null for a QP without. Caller must hold `objects`.
  /// InvalidArgument: it is no such number. Busy: it is another QP's. OutOfMemory: no place is
  /// left.
  [[nodiscard]] Result<ExternalNumber*> reserve_external(const QpInit& init);
  /// Null: no QP has that number in packets.
  [[nodiscard]] Qp* find_external(Qpn number) const {
    for (const ExternalNumber& each : external_numbers) {
      Qp* const qp = each.qp.load(std::memory_order_acquire);
      if (qp != nullptr && each.number.load(std::memory_order_relaxed) == number.value()) {
        return qp;
      }
    }
    return nullptr;
  }

  std::vector<std::unique_ptr<WorkQueue>> wqs;  // index: number - kFirstWorkQueue
  ObjectPool<IndirectionTable> indirection_tables;
  XrcSrqTable xrc_srqs;
  ObjectPool<XrcDomain> xrc_domains;
  ObjectPool<ProtectionDomain> pds;
  ObjectPool<CompletionQueue> cqs;
  ObjectPool<SharedReceiveQueue> srqs;
  ObjectPool<AddressHandle> ahs;

  /// An attached multicast group (IBTA vol 1 §10.5).
  struct Group {
    Gid mgid;
    Lid mlid;
    std::vector<Qp*> members;
  };
  std::vector<Group> groups;

  std::atomic<std::uint64_t> no_qp{0};
  std::atomic<std::uint64_t> pkey_violations{0};
  std::atomic<std::uint64_t> qkey_violations{0};
  std::atomic<std::uint64_t> malformed{0};
};

}  // namespace weft::hca
