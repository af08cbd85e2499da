#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "sa/path_source.h"

namespace weft::sa {

/// Somebody who may know whose an address is that no interface of a host leads to. A kernel asks by
/// RDMA_NL_LS_OP_IP_RESOLVE where its route has a gateway, whose link address is none of
/// InfiniBand's.
class AddressSource {
 public:
  using QuestionId = PathSource::QuestionId;
  /// None: nobody knows. Called once for each question that is not cancelled, never from inside
  /// ask_address().
  using GidDone = std::function<void(const std::optional<Gid>& dgid, Instant now)>;

  AddressSource() = default;
  virtual ~AddressSource() = default;
  AddressSource(const AddressSource&) = delete;
  AddressSource& operator=(const AddressSource&) = delete;

  /// Whose GID has the address, behind the interface (0: behind whichever)? None: nobody is there
  /// to be asked, and `done` is not called. The time until `done` is bounded.
  [[nodiscard]] virtual std::optional<QuestionId> ask_address(std::uint32_t interface_index,
                                                              const IpAddress& address,
                                                              GidDone done, Instant now) = 0;
  /// `done` will not be called.
  virtual void cancel(QuestionId question) = 0;
};

}  // namespace weft::sa
