#pragma once

// Which function a SIDR_REQ is for when no GRH says so: it has no GID in it (IBTA vol 1 §12.11.1).
// With RDMA-CM's header, the function that has the destination IP address, the physical one
// included; else the one that listens for the service in the partition. One thread at a time.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/keys.h"
#include "base/result.h"
#include "sriov/types.h"
#include "wire/cm/rdma_cm_header.h"
#include "wire/cm/sidr.h"

namespace weft::sriov {

/// True for service IDs of RDMA-CM (IBTA vol 1 annex A11): their private data begin with its
/// header.
[[nodiscard]] constexpr bool is_rdma_cm_service(std::uint64_t service_id) {
  return service_id >> 24 == 1;
}

/// Who knows that.
class ServiceDirectory {
 public:
  virtual ~ServiceDirectory() = default;
  [[nodiscard]] virtual std::optional<FunctionId> find_address(
      const wire::SidrReq& request) const = 0;
  [[nodiscard]] virtual std::optional<FunctionId> find_listener(
      const wire::SidrReq& request) const = 0;
};

/// A directory that is told.
class ServiceTable final : public ServiceDirectory {
 public:
  /// `limit` of addresses and of listeners, of each function.
  explicit ServiceTable(std::size_t limit) : limit_(limit) {}

  /// AddressInUse: another function has it. OutOfMemory: too many.
  [[nodiscard]] Result<void> add_address(FunctionId function, const wire::RdmaCmAddress& address);
  [[nodiscard]] Result<void> add_listener(FunctionId function, std::uint64_t service_id, PKey pkey);
  void remove_listener(FunctionId function, std::uint64_t service_id, PKey pkey);
  void remove(FunctionId function);

  [[nodiscard]] std::optional<FunctionId> find_address(const wire::SidrReq& request) const override;
  [[nodiscard]] std::optional<FunctionId> find_listener(
      const wire::SidrReq& request) const override;

 private:
  struct Service {
    std::uint64_t service_id{};
    std::uint16_t partition{};
    auto operator<=>(const Service&) const = default;
  };

  std::size_t limit_;
  std::map<wire::RdmaCmAddress, FunctionId> addresses_;
  std::map<Service, FunctionId> listeners_;
};

}  // namespace weft::sriov
