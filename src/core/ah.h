#pragma once

#include <cstdint>
#include <utility>

#include "base/flags.h"
#include "base/keys.h"
#include "base/result.h"
#include "core/net_device.h"
#include "core/pd.h"
#include "core/port_cache.h"
#include "core/resource.h"
#include "core/work_request.h"
#include "verbs/address_vector.h"
#include "wire/grh.h"

namespace weft::core {

/// Attributes of an address handle (`struct rdma_ah_attr`), which hold the source GID that they
/// name. The kernel's calls are this type's own: rdma_copy_ah_attr is the copy,
/// rdma_replace_ah_attr the assignment of a copy, rdma_move_ah_attr the assignment of a moved one,
/// rdma_destroy_ah_attr is reset(), which may be repeated (R-AH-3).
struct AhAttributes {
  verbs::AddressVector address{};
  GidReference sgid{};  ///< empty: `address.grh.sgid_index` says which, if `address.is_global`
  NetDevice::MacAddress destination_mac{};  ///< RoCE

  /// Gives up the source GID; the rest is zero afterwards.
  void reset() { *this = AhAttributes{}; }
};

/// Sets the global route and takes `sgid` over (`rdma_move_grh_sgid_attr`).
struct GrhFields {
  std::uint32_t flow_label{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
};
void move_grh_sgid(AhAttributes& attributes, const Gid& dgid, const GrhFields& fields,
                   GidReference sgid);

enum class AhFlag : std::uint32_t { Sleepable = 1U << 0 };
using AhFlags = Flags<AhFlag>;

/// Address handle: a destination of UD sends (IBTA vol 1 §11.2.2). Any thread.
class Ah final : public Resource {
 public:
  Ah(Pd& pd, AhAttributes attributes);

  [[nodiscard]] Pd& pd() const { return pd_; }
  [[nodiscard]] PortNumber port() const { return port_; }
  /// The source GID that the handle holds; empty without a global route.
  [[nodiscard]] const GidReference& sgid() const { return sgid_; }

 private:
  friend Result<void> modify_ah(Ah& ah, const AhAttributes& attributes);
  Pd& pd_;
  PortNumber port_;
  GidReference sgid_;
};

/// InvalidArgument: no such port, GID index or rate (R-AH-1). Without Sleepable the driver must
/// not sleep.
Result<Ah*> create_ah(Pd& pd, const AhAttributes& attributes, AhFlags flags = AhFlag::Sleepable);

/// For a program: on RoCE the destination's MAC is looked up first (R-AH-2).
Result<Ah*> create_user_ah(Pd& pd, const AhAttributes& attributes, UserData* user_data);

/// The handle's type of port stays. NotSupported: the driver has no such verb.
Result<void> modify_ah(Ah& ah, const AhAttributes& attributes);
Result<AhAttributes> query_ah(Ah& ah);
Result<void> destroy_ah(Ah& ah, AhFlags flags = AhFlag::Sleepable);

/// Attributes that lead back to the sender of a UD packet (`ib_init_ah_attr_from_wc`); `grh` is the
/// one that the packet came with, which counts if the completion says so.
Result<AhAttributes> ah_attributes_from_wc(Device& device, PortNumber port, const Wc& wc,
                                           const wire::Grh* grh);
/// The same as a handle (`ib_create_ah_from_wc`).
Result<Ah*> create_ah_from_wc(Pd& pd, const Wc& wc, const wire::Grh* grh, PortNumber port);

/// Port, range and GID index of attributes (`rvt_check_ah`'s basics, R-RVT-4).
Result<void> check_ah_attributes(Device& device, const AhAttributes& attributes);

}  // namespace weft::core
