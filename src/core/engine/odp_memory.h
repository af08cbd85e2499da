#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/lock.h"
#include "core/address_space.h"
#include "core/odp_umem.h"
#include "hca/hca.h"
#include "hca/user_memory.h"

namespace weft::core::engine {

/// How an engine's on-demand regions come by their pages, as a kernel's driver does it: all of the
/// address space is one implicit umem, of which a part is made where a transfer first needs a page
/// (R-ODP-2). A transfer that needs a page which is not mapped faults; a page that changes is taken
/// away, and transfers that use it are waited for. Any thread, with a QP's lock or without.
class OdpMemory final : public hca::UserMemory {
 public:
  explicit OdpMemory(AddressSpace& space);
  ~OdpMemory() override;  // after the HCA

  /// The HCA whose QPs are waited for; from before the first transfer on.
  void bind(hca::Hca& hca) { hca_.store(&hca, std::memory_order_release); }
  /// No transfer comes any more, and the HCA goes: on return nobody waits for its QPs. Not with a
  /// QP's lock.
  void close();

  [[nodiscard]] bool fault_in(std::span<std::byte> range, bool for_writing) override;
  /// Memory of programs is not persistent.
  [[nodiscard]] bool persist(std::span<std::byte> /*range*/) override { return false; }

  /// Transfers, and advice, that needed a page which was not mapped.
  [[nodiscard]] std::uint64_t faults() const { return faults_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t parts() const;
  [[nodiscard]] std::uint64_t mapped_pages() const;

  static constexpr std::uint64_t kPartBytes = 1U << 21;  // policy; a power of two

 private:
  [[nodiscard]] OdpUmem* part_at(std::uint64_t address);
  [[nodiscard]] bool map(OdpUmem& part, std::uint64_t address, std::uint64_t length,
                         std::uint64_t access);
  void take_away(OdpUmem& part, std::uint64_t first, std::uint64_t last);

  AddressSpace& space_;
  std::atomic<hca::Hca*> hca_{};
  std::atomic<std::uint64_t> faults_{};
  const std::unique_ptr<OdpUmem> all_;
  mutable PolicyLock lock_;  // of what follows; held while a part is made
  std::map<std::uint64_t, std::unique_ptr<OdpUmem>> parts_;  // by first address; they stay
};

}  // namespace weft::core::engine
