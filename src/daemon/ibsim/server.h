#pragma once

// Serves programs preloaded with libumad2sim in place of ibsim: they connect to a node, query its
// port, and exchange MADs. Only programs of the same user are served; each is identified by its
// process, including those that use UDP.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "daemon/ibsim/connection.h"
#include "daemon/ibsim/location.h"
#include "daemon/ibsim/messages.h"
#include "daemon/ibsim/socket.h"
#include "daemon/offences.h"
#include "fabric/tables.h"
#include "node/fabric.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// The port selected by a program: by node name, node description, `H-GUID` or `S-GUID`; the first
/// host's port if the name is empty.
[[nodiscard]] Result<fabric::PortIndex> find_ibsim_port(node::Fabric& fabric,
                                                        std::string_view name);

/// Answers a query about the program's port. Returns false if it is not such a query.
[[nodiscard]] bool answer_ibsim_request(node::Fabric& fabric, fabric::PortIndex port,
                                        IbsimControl& question);

/// Accepts connections, answers queries, and owns the MAD sockets. Used on the daemon's thread
/// only.
class IbsimServer {
 public:
  static constexpr std::size_t kMaxClients = 256;  // policy; ibsim allows 10
  static constexpr int kBatch = 64;  // requests read before other clients are served; policy

  struct Handlers {
    std::function<void(fabric::PortIndex)> on_sent;
    /// A subnet manager was registered or unregistered at the port.
    std::function<void(fabric::PortIndex)> on_sm;
    std::function<void(const ProgramName&, std::string_view)> on_offence;
  };

  /// Takes the socket for questions; refused (Exists) while another has it.
  [[nodiscard]] static Result<os::UniqueFd> take(const IbsimLocation& place);

  IbsimServer(asio::io_context& loop, IbsimLocation place, os::UniqueFd control,
              node::Fabric& fabric, Handlers handlers);
  ~IbsimServer();
  IbsimServer(const IbsimServer&) = delete;
  IbsimServer& operator=(const IbsimServer&) = delete;

  /// Sends queued MADs to programs.
  void flush();
  [[nodiscard]] bool has_sm(fabric::PortIndex port) const;

 private:
  void wait_for_requests();
  void handle(const IbsimDatagram& datagram);
  [[nodiscard]] bool answer(pid_t program, IbsimControl& question);
  [[nodiscard]] Result<void> connect(pid_t program, IbsimControl& question);
  [[nodiscard]] Result<void> set_sm(IbsimConnection& connection, bool is_sm);
  void disconnect(std::uint32_t number);
  void offend(pid_t pid, std::string_view what) const;

  asio::io_context& loop_;
  IbsimLocation place_;
  asio::posix::stream_descriptor control_;
  node::Fabric& fabric_;
  Handlers handlers_;
  std::map<std::uint32_t, std::shared_ptr<IbsimConnection>> connections_;
};

}  // namespace weft::daemon
