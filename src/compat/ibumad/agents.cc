// Agents of an open port.

#include <cerrno>
#include <cstdint>

#include "compat/ibumad/abi.h"
#include "compat/ibumad/open_port.h"
#include "compat/ibumad/requests.h"

using namespace weft;
using namespace weft::compat;

namespace {

constexpr std::uint32_t kOpenIbOui = UMAD_OPENIB_OUI;
constexpr int kMasks = 16 / sizeof(long);

[[nodiscard]] bool is_vendor_with_oui(int mgmt_class) {
  return mgmt_class >= UMAD_CLASS_VENDOR_RANGE2_START && mgmt_class <= UMAD_CLASS_VENDOR_RANGE2_END;
}

/// Returns the agent's number, or a negative errno.
[[nodiscard]] int register_on(int number, const uabi::RegisterUmadAgent& agent) {
  const auto port = port_of(number);
  if (!port) {
    return -EINVAL;
  }
  const auto registered = port->register_agent(agent);
  if (!registered) {
    explain(registered.error().reason);
    return registered.error().code == ErrorCode::OutOfMemory ? -ENOMEM : -EINVAL;
  }
  return static_cast<int>(*registered);
}

void set_methods(uabi::RegisterUmadAgent& agent, const long* mask) {
  static_assert(kMasks == 2, "a mask of 128 methods is two longs here");
  if (mask != nullptr) {
    agent.methods = {static_cast<std::uint64_t>(mask[0]), static_cast<std::uint64_t>(mask[1])};
  }
}

/// The old functions for registration report only that they failed.
[[nodiscard]] int agent_or_refusal(int registered) {
  if (registered >= 0) {
    return registered;
  }
  errno = -registered;
  return -EPERM;
}

}  // namespace

extern "C" {

WEFT_EXPORT int umad_register(int number, int mgmt_class, int mgmt_version,
                              std::uint8_t rmpp_version, long method_mask[16 / sizeof(long)]) {
  uabi::RegisterUmadAgent agent{.mgmt_class = static_cast<std::uint8_t>(mgmt_class),
                                .class_version = static_cast<std::uint8_t>(mgmt_version),
                                .rmpp_version = rmpp_version,
                                .does_rmpp = false,
                                .oui = kOpenIbOui,
                                .methods = {}};
  set_methods(agent, method_mask);
  return agent_or_refusal(register_on(number, agent));
}

WEFT_EXPORT int umad_register_oui(int number, int mgmt_class, std::uint8_t rmpp_version,
                                  std::uint8_t oui[3], long method_mask[16 / sizeof(long)]) {
  if (!is_vendor_with_oui(mgmt_class)) {
    return -EINVAL;
  }
  uabi::RegisterUmadAgent agent{
      .mgmt_class = static_cast<std::uint8_t>(mgmt_class),
      .class_version = 1,
      .rmpp_version = rmpp_version,
      .does_rmpp = false,
      .oui = std::uint32_t{oui[0]} << 16 | std::uint32_t{oui[1]} << 8 | oui[2],
      .methods = {}};
  set_methods(agent, method_mask);
  return agent_or_refusal(register_on(number, agent));
}

WEFT_EXPORT int umad_register2(int number, umad_reg_attr* attributes, std::uint32_t* agent_id) {
  constexpr std::uint32_t kFlags = UMAD_USER_RMPP;
  if (attributes == nullptr || agent_id == nullptr) {
    return EINVAL;
  }
  if (is_vendor_with_oui(attributes->mgmt_class) &&
      ((attributes->oui & 0xFF'FFFF) == 0 || (attributes->oui & 0xFF00'0000) != 0)) {
    return EINVAL;
  }
  if ((attributes->flags & ~kFlags) != 0) {
    attributes->flags = kFlags;  // reports the supported flags
    return EINVAL;
  }
  const int registered =
      register_on(number, {
                              .mgmt_class = attributes->mgmt_class,
                              .class_version = attributes->mgmt_class_version,
                              .rmpp_version = attributes->rmpp_version,
                              .does_rmpp = (attributes->flags & UMAD_USER_RMPP) != 0,
                              .oui = attributes->oui,
                              .methods = {attributes->method_mask[0], attributes->method_mask[1]}
  });
  if (registered < 0) {
    return -registered;
  }
  *agent_id = static_cast<std::uint32_t>(registered);
  return 0;
}

WEFT_EXPORT int umad_unregister(int number, int agent) {
  const auto port = port_of(number);
  const auto done = port ? port->unregister_agent(static_cast<std::uint32_t>(agent))
                         : Result<void>{fail(ErrorCode::InvalidArgument, "no such port is open")};
  if (!done) {
    explain(done.error().reason);
    errno = EINVAL;
    return -1;
  }
  return 0;
}

}  // extern "C"
