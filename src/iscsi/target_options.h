#pragma once

// What an iSCSI target is told, and what it asks of its driver.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/lock.h"
#include "base/time.h"
#include "iscsi/chap.h"
#include "iscsi/parameters.h"
#include "scsi/target.h"

namespace weft::iscsi {

/// One target node of a server.
struct NodeOptions {
  std::string name{};   ///< iSCSI Name: iqn., eui. or naa. (RFC 7143 §4.2.7)
  std::string alias{};  ///< for people; may be empty
  scsi::Target* scsi{};
  scsi::PortId port{1};
  ChapPolicy chap{};
  std::vector<std::string> initiators{};  ///< who may log in; empty: everybody
};

struct ServerOptions {
  Preferences preferences{};
  LockPolicy locks{LockPolicy::None};  ///< Spin if block devices answer on other threads
  std::uint16_t portal_group_tag{1};
  std::vector<std::string> addresses{};       ///< of the portal group by TCP, as host:port
  std::vector<std::string> rdma_addresses{};  ///< and by iSER
  std::uint32_t command_window{128};          // policy, as all that follows
  std::size_t max_connections{4096};
  std::size_t max_logins{256};  ///< under way; beyond, the oldest is ended for the newest
  std::size_t max_sessions{4096};
  std::size_t max_immediate_tasks{32};       ///< of a session, beyond the command window
  std::size_t max_transfer_bytes{32 << 20};  ///< of a command
  Duration login_timeout{Duration::seconds(30)};
  Duration ping_interval{Duration::seconds(30)};  ///< without a word of the initiator
  Duration ping_timeout{Duration::seconds(15)};
  Duration data_timeout{
      Duration::seconds(2)};  ///< level 1: before lost Data-Out is asked for again
};

/// What the driver of a server does for it.
class ServerEnvironment {
 public:
  /// Commands have ended: call TargetServer::handle_completions() on the server's thread. Any
  /// thread, and from inside of the server.
  virtual void wake() = 0;
  [[nodiscard]] virtual ChapLibrary& chap_library() = 0;

 protected:
  ~ServerEnvironment() = default;
};

/// InvalidArgument for what is no iSCSI Name of at most 223 octets (RFC 7143 §4.2.7.1).
[[nodiscard]] Result<void> check_iscsi_name(const std::string& name);

}  // namespace weft::iscsi
