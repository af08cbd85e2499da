#pragma once

// GUIDs of virtual functions at a port, registered with SA by GUIDInfoRecords (IBTA vol 1
// §15.2.5.18): the function's number is the index in the port's GUIDInfo, in blocks of eight. An
// administrator sets a GUID or leaves the choice to the subnet manager. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "sriov/types.h"
#include "wire/mad/sa_mad.h"

namespace weft::sriov {

enum class AliasGuidState : std::uint8_t {
  Unset,        ///< nothing is wanted, nothing is registered
  Pending,      ///< to be registered
  Requested,    ///< SA was asked
  Valid,        ///< registered: the function has this GUID
  Declined,     ///< refused, asked again later
  Withdrawing,  ///< to be deleted at SA
};
inline constexpr std::size_t kAliasGuidStates = 6;
[[nodiscard]] std::string_view name_of(AliasGuidState state);

enum class AliasGuidInput : std::uint8_t {
  Assign,    ///< an administrator sets a GUID, or asks for one
  Withdraw,  ///< an administrator deletes it, or the function is gone
  Send,      ///< the request goes to SA
  Accept,
  Decline,     ///< or no answer in time
  Retry,       ///< the time until the next attempt is over
  Reregister,  ///< SA may have forgotten it
  PortUp,      ///< what was asked before may be lost
};
inline constexpr std::size_t kAliasGuidInputs = 8;
/// None where the input changes nothing.
[[nodiscard]] std::optional<AliasGuidState> next_state(AliasGuidState state, AliasGuidInput input);

/// What an administrator writes, as to mlx4's sysfs files: delete, or let the manager choose.
inline constexpr Guid kGuidDelete{~std::uint64_t{0}};
inline constexpr Guid kGuidByManager{0};

struct AliasGuidLimits {
  Duration timeout{Duration::seconds(2)};  ///< policy
  Duration retry{Duration::seconds(1)};    ///< as mlx4; doubled up to
  Duration retry_max{Duration::seconds(60)};
};

class AliasGuids {
 public:
  explicit AliasGuids(const AliasGuidLimits& limits) : limits_(limits) {}

  void set_lid(Lid lid) { lid_ = lid; }

  /// `admin`: a GUID, kGuidByManager or kGuidDelete. InvalidArgument: the physical function's is
  /// the port's own.
  [[nodiscard]] Result<void> set(FunctionId function, Guid admin, Instant now);
  /// What is to be registered is not asked for before then.
  void postpone(FunctionId function, Instant until);
  /// Client re-register, or another manager.
  void reregister_all(Instant now);
  /// The port can send again: what SA has not confirmed is asked for at once.
  void handle_port_up();

  /// Requests to SA, one at a time for each block, with a transaction ID of kAliasGuidTag.
  [[nodiscard]] std::optional<wire::SaMad> poll_transmit(Instant now);
  /// False if it is not an answer to a request of this object.
  [[nodiscard]] bool handle_answer(const wire::SaMad& answer, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;

  struct Change {
    FunctionId function{};
    Guid guid{};  ///< 0: the function has none any more
    bool operator==(const Change&) const = default;
  };
  [[nodiscard]] std::optional<Change> poll_change();

  [[nodiscard]] AliasGuidState state(FunctionId function) const;
  /// 0 unless Valid.
  [[nodiscard]] Guid guid_of(FunctionId function) const;
  /// What an administrator wants; kGuidDelete of who has nothing.
  [[nodiscard]] Guid admin_guid_of(FunctionId function) const;
  void check_invariants() const;

 private:
  struct Record {
    AliasGuidState state{AliasGuidState::Unset};
    Guid admin{kGuidDelete};
    Guid value{};        ///< registered, as far as is known
    Duration backoff{};  ///< before the next attempt
    Instant retry_at;
    std::uint32_t version{};  ///< counts changes, so that an old answer is noticed
  };
  struct Request {
    bool is_delete{};
    std::map<FunctionId, std::uint32_t> versions;  ///< of the entries in it
    std::uint8_t block{};
    Instant due;
  };

  bool apply(FunctionId function, AliasGuidInput input);
  void decline(FunctionId function, Instant now);
  void tell(FunctionId function, Guid guid);
  [[nodiscard]] bool has_request(std::uint8_t block) const;
  [[nodiscard]] std::optional<wire::SaMad> make_request(std::uint8_t block, Instant now);
  void end(const Request& request, const wire::SaMad* answer, Instant now);

  AliasGuidLimits limits_;
  Lid lid_;
  std::uint64_t last_transaction_{};
  std::map<FunctionId, Record> records_;
  std::map<std::uint64_t, Request> requests_;  ///< by transaction ID
  std::deque<Change> changes_;
};

}  // namespace weft::sriov
