#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hca/hca.h"

namespace weft::hca {

/// Objects of one kind: handed out as raw pointers, freed at the latest with the HCA, as closing a
/// device does.
template <class T>
class ObjectPool {
 public:
  T* add(std::unique_ptr<T> object) {
    T* const raw = object.get();
    objects_.emplace(raw, std::move(object));
    return raw;
  }
  void free(T& object) { objects_.erase(&object); }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }

 private:
  std::unordered_map<T*, std::unique_ptr<T>> objects_;
};

/// Numbers of work queues stand beside QPNs in completions. Those of a process slot are its QPs';
/// of slot 0, a host's own, only QP0 and QP1 are taken (base/process_slot.h).
inline constexpr std::uint32_t kFirstWorkQueue = 0x2000;

/// Objects by kind. `objects` guards creation, destruction and everything here but the ports and
/// the data path's QP slots: a slot is read without a lock, since the driver keeps deliveries and
/// destroy_qp apart. A QP's locks come after `objects` and before `ports_lock`.
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

  /// With `objects` held, so that no QP comes or goes meanwhile.
  template <class Visit>
  void each_qp(Visit visit) {
    for (auto& slot : qps) {
      if (Qp* const qp = slot.load(std::memory_order_acquire); qp != nullptr) {
        visit(*qp);
      }
    }
  }

  HcaConfiguration configuration;
  HcaEvents& events;
  mutable PolicyLock objects;
  MemoryTable memory;
  mutable PolicyLock ports_lock;  // held for nothing else, so that a QP's lock may be held before
  std::array<PortAttributes, 3> ports;  // by number; an HCA has one or two

  std::vector<std::atomic<Qp*>> qps;  // by QPN - first_qpn
  std::uint32_t next_qp{};
  std::uint32_t qp_count{};
  std::vector<std::unique_ptr<WorkQueue>> wqs;  // by number - kFirstWorkQueue
  XrcSrqTable xrc_srqs;
  ObjectPool<XrcDomain> xrc_domains;
  ObjectPool<ProtectionDomain> pds;
  ObjectPool<CompletionQueue> cqs;
  ObjectPool<SharedReceiveQueue> srqs;
  ObjectPool<AddressHandle> ahs;

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
