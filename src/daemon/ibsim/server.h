#pragma once

// What ibsim is for programs preloaded with libumad2sim: they connect to a node, ask what its port
// is, and send MADs. Only programs of the same user are heard; each is known by its process, also
// those that come by UDP.

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
#include "daemon/ibsim/messages.h"
#include "daemon/ibsim/place.h"
#include "daemon/ibsim/socket.h"
#include "daemon/offences.h"
#include "fabric/tables.h"
#include "node/fabric.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// The port that a program means: of a node, by its name, its description or `H-GUID`, `S-GUID`;
/// the first host's if it names none.
[[nodiscard]] Result<fabric::PortIndex> find_ibsim_port(node::Fabric& fabric,
                                                        std::string_view name);

/// Answers what a program asks of its port; false: not a question with such an answer.
[[nodiscard]] bool answer_ibsim_question(node::Fabric& fabric, fabric::PortIndex port,
                                         IbsimControl& question);

class IbsimServer {
 public:
  static constexpr std::size_t kMaxClients = 256;  // policy; ibsim has 10
  static constexpr int kTurn = 64;                 // questions before others are read; policy

  struct Handlers {
    std::function<void(fabric::PortIndex)> on_sent;
    /// A subnet manager begins or ends at the port.
    std::function<void(fabric::PortIndex)> on_sm;
    std::function<void(const ProgramName&, std::string_view)> on_offence;
  };

  /// Takes the socket for questions; refused (Exists) while another has it.
  [[nodiscard]] static Result<os::UniqueFd> take(const IbsimPlace& place);

  IbsimServer(asio::io_context& loop, IbsimPlace place, os::UniqueFd control, node::Fabric& fabric,
              Handlers handlers);
  ~IbsimServer();
  IbsimServer(const IbsimServer&) = delete;
  IbsimServer& operator=(const IbsimServer&) = delete;

  /// Hands over what came for programs.
  void flush();
  [[nodiscard]] bool has_sm(fabric::PortIndex port) const;

 private:
  void wait_for_questions();
  void handle(const IbsimDatagram& datagram);
  [[nodiscard]] bool answer(pid_t program, IbsimControl& question);
  [[nodiscard]] Result<void> connect(pid_t program, IbsimControl& question);
  [[nodiscard]] Result<void> set_sm(IbsimConnection& connection, bool is_sm);
  void disconnect(std::uint32_t number);
  void offend(pid_t pid, std::string_view what) const;

  asio::io_context& loop_;
  IbsimPlace place_;
  asio::posix::stream_descriptor control_;
  node::Fabric& fabric_;
  Handlers handlers_;
  std::map<std::uint32_t, std::shared_ptr<IbsimConnection>> connections_;
};

}  // namespace weft::daemon
