#include "daemon/ibsim/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "os/clock.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

Result<os::UniqueFd> IbsimServer::take(const IbsimLocation& place) {
  auto control = place.bind_control();
  if (!control && control.error().code == ErrorCode::Exists) {
    return fail(ErrorCode::Exists,
                "ibsim, or another fabric, has that place ({}); IBSIM_SOCKNAME chooses another "
                "name, here and for the programs, and IBSIM_SERVER_PORT another port",
                control.error().reason);
  }
  return control;
}

IbsimServer::IbsimServer(asio::io_context& loop, IbsimLocation place, os::UniqueFd control,
                         node::Fabric& fabric, Handlers handlers)
    : loop_(loop),
      place_(std::move(place)),
      control_(loop, control.release()),
      fabric_(fabric),
      handlers_(std::move(handlers)) {
  wait_for_requests();
}

IbsimServer::~IbsimServer() {
  for (const auto& [number, connection] : connections_) {
    connection->end();
  }
}

void IbsimServer::wait_for_requests() {
  control_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (error) {
      return;
    }
    IbsimDatagram datagram;
    for (int turn = 0; turn < kBatch && receive_ibsim(control_.native_handle(), datagram); ++turn) {
      handle(datagram);
    }
    wait_for_requests();
  });
}

void IbsimServer::handle(const IbsimDatagram& datagram) {
  const auto program = place_.sender_of(datagram);
  if (!program) {
    return offend(datagram.sender.pid, "questions by ibsim's protocol of another user");
  }
  auto question = read_ibsim<IbsimControl>(datagram.bytes());
  if (!question || question->magic != IbsimControl::kMagic) {
    return offend(*program, "datagrams that are no questions of ibsim's protocol");
  }
  if (!answer(*program, *question)) {
    question->question = IbsimRequest::Error;
  }
  answer_ibsim(control_.native_handle(), datagram, write_ibsim(*question));
}

bool IbsimServer::answer(pid_t program, IbsimControl& question) {
  if (question.question == IbsimRequest::Connect) {
    const auto connected = connect(program, question);
    if (!connected) {
      offend(program,
             fmt::format("connections by ibsim's protocol refused: {}", connected.error().reason));
    }
    return connected.has_value();
  }
  const auto found = connections_.find(question.client);
  if (found == connections_.end() || found->second->pid() != program) {
    offend(program, "questions by ibsim's protocol without a connection");
    return false;
  }
  if (question.question == IbsimRequest::Disconnect) {
    disconnect(found->first);
    return true;
  }
  if (question.question == IbsimRequest::IsSm) {
    const auto set = set_sm(*found->second, data_of<std::uint32_t>(question) != 0);
    if (!set) {
      offend(program, fmt::format("subnet managers refused: {}", set.error().reason));
    }
    return set.has_value();
  }
  return answer_ibsim_request(fabric_, found->second->port(), question);
}

Result<void> IbsimServer::connect(pid_t program, IbsimControl& question) {
  auto said = data_of<IbsimConnect>(question);
  const auto port = find_ibsim_port(fabric_, name_in(said));
  if (!port) {
    return std::unexpected(port.error());
  }
  std::uint32_t number = 0;
  while (connections_.contains(number)) {
    ++number;
  }
  if (number >= kMaxClients) {
    return fail(ErrorCode::OutOfMemory, "there are {} already", kMaxClients);
  }
  if (!place_.is_of(program, said.id)) {
    return fail(ErrorCode::PermissionDenied, "UDP port {} does not belong to the program", said.id);
  }
  auto socket = place_.open_client(number, said.id);
  if (!socket) {
    return std::unexpected(socket.error());
  }
  node::ManagementPort& management = fabric_.management().port(*port);
  const auto connection =
      std::make_shared<IbsimConnection>(loop_, std::move(*socket), program,
                                        node::UmadPortAccess{.smi = management.smi(),
                                                             .gsi = management.gsi(),
                                                             .tables = fabric_.builder(),
                                                             .port = *port});
  connections_[number] = connection;
  connection->start(
      {.on_sent = [this, at = *port] { handlers_.on_sent(at); },
       .on_offence = [this, pid = program](std::string_view what) { offend(pid, what); },
       .on_end = [this, number] { disconnect(number); }});
  if (said.is_sm != 0) {
    if (auto set = set_sm(*connection, true); !set) {
      disconnect(number);
      return set;
    }
  }
  said.id = number;
  if (name_in(said).empty()) {
    const fabric::TablesBuilder& tables = fabric_.builder();
    set_name(said, tables.name(tables.node(tables.port(*port).node)));
  }
  question.client = number;
  set_data(question, said);
  return {};
}

Result<void> IbsimServer::set_sm(IbsimConnection& connection, bool is_sm) {
  if (auto set = connection.client().set_sm(is_sm, os::now()); !set) {
    return set;
  }
  handlers_.on_sm(connection.port());
  return {};
}

void IbsimServer::disconnect(std::uint32_t number) {
  const auto gone = connections_.extract(number);
  if (gone.empty()) {
    return;
  }
  const fabric::PortIndex port = gone.mapped()->port();
  const bool was_sm = gone.mapped()->client().is_sm();
  gone.mapped()->end();
  if (was_sm) {
    handlers_.on_sm(port);
  }
  handlers_.on_sent(port);  // its transactions were cancelled
}

void IbsimServer::flush() {
  for (const auto& [number, connection] : connections_) {
    connection->flush();
  }
}

bool IbsimServer::has_sm(fabric::PortIndex port) const {
  return std::ranges::any_of(connections_, [port](const auto& entry) {
    return entry.second->port() == port && entry.second->client().is_sm();
  });
}

void IbsimServer::offend(pid_t pid, std::string_view what) const {
  ProgramName name{.pid = pid, .program = {}, .host = {}};
  std::ifstream file{fmt::format("/proc/{}/comm", pid)};
  std::getline(file, name.program);
  handlers_.on_offence(name, what);
}

}  // namespace weft::daemon
