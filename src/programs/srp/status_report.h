#pragma once

// What `weft srp status` shows: how a process says it, as JSON, and how people read it. Pure.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "ulp/iser/shared_receives.h"
#include "ulp/srp/path_state.h"
#include "ulp/srp/target.h"

namespace weft::programs::srp {

struct UnitStatus {
  std::uint16_t lun{};
  std::string disk{};  ///< "ram", or the path of a file
  std::uint64_t bytes{};
  std::uint32_t block_bytes{};
  bool read_only{};
};

/// Of a target, at one device.
struct TargetPortStatus {
  wire::SrpPortId id{};
  std::string name{};    ///< as channels have it
  std::string device{};  ///< empty: it waits for one
};

struct TargetStatus {
  std::vector<TargetPortStatus> ports{};
  std::vector<UnitStatus> units{};
  std::vector<weft::srp::ChannelStatus> channels{};
  weft::srp::TargetCounters counters{};
};

struct TargetDeviceStatus {
  std::string name{};
  std::optional<weft::iser::SharedReceiveCounters> shared{};  ///< none: channels have their own
};

/// Of a process of `weft srp target`.
struct TargetReport {
  pid_t pid{};
  std::vector<TargetDeviceStatus> devices{};
  std::uint64_t service_id{};          ///< by which device management says to log in
  std::vector<std::string> portals{};  ///< HOST:PORT
  std::vector<TargetStatus> targets{};
};

struct PathStatus {
  std::string where{};  ///< the target's address
  wire::SrpPortId target{};
  weft::srp::PathState state{};
  bool is_in_use{};  ///< commands take it
  std::int64_t credits{};
  std::size_t outstanding{};  ///< commands that were sent and not answered
  std::size_t queued{};       ///< commands that wait for a credit or a login
  std::uint64_t logins{};
  std::uint64_t losses{};      ///< of channels that were logged in
  std::string last_failure{};  ///< empty: there was none
};

/// Of a process of `weft srp attach`.
struct AttachReport {
  pid_t pid{};
  std::uint16_t lun{};
  std::vector<wire::SrpPortId> initiators{};  ///< as whom it logs in, by path
  std::uint64_t commands{};                   ///< that were executed for NBD
  std::vector<PathStatus> paths{};
};

/// Policy: channels that are told of, since an answer has to fit a socket's buffer; of the others
/// only the number is.
inline constexpr std::size_t kMostChannels = 256;

/// One line each.
[[nodiscard]] std::string to_json(TargetReport report);
[[nodiscard]] std::string to_json(const AttachReport& report);

/// A report for people. Io: it is no report.
[[nodiscard]] Result<std::string> status_text(std::string_view json);

}  // namespace weft::programs::srp
