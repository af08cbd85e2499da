// Effects of clients' messages on the daemon's state: streams of requests of three programs,
// decoded as from a socket and applied to the fabric as by the daemon, without sockets. Checks the
// invariants of the fabric, budgets, offences and shared objects, and that nothing remains after
// all programs. RDMA-CM messages are covered by rdma_cm/connections_fuzz.cc.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/testing/pieces.h"
#include "daemon/offences.h"
#include "daemon/request_budget.h"
#include "daemon/umad/channel.h"
#include "node/fabric.h"
#include "node/node_change.h"
#include "node/port_change.h"
#include "node/shared_devices.h"
#include "node/testing/settle.h"
#include "node/xrc_domains.h"
#include "uabi/testing/sample_message.h"

namespace weft::daemon {
namespace {

// small enough for short inputs to exhaust it
constexpr std::int64_t kCost = RequestBudget::kBurst / 8;
constexpr fuzz::PieceFormat kFormat{.head_octets = 2};

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

bool has_changed_ports = false;  // by this input
bool has_changed_nodes = false;

[[nodiscard]] std::unique_ptr<node::Fabric> make_fabric() {
  return *node::Fabric::create(*fabric::generate("star:3"), Instant{});
}
std::unique_ptr<node::Fabric>& fabric_place() {
  static std::unique_ptr<node::Fabric> place = make_fabric();
  return place;
}
node::Fabric& fabric() { return *fabric_place(); }

struct Program {
  std::optional<node::ProcessId> process;
  RequestBudget budget;
  ProgramName name;
  std::unique_ptr<node::UmadFile> file;  // of its open port
};

class Desk {
 public:
  void handle(Program& program, ByteSpan bytes) {
    now_ = now_ + Duration::microseconds(50);
    if (program.budget.is_empty(now_)) {
      return;  // budget exhausted
    }
    program.budget.charge(kCost, now_);
    require(!program.budget.is_full(now_));
    const auto message = uabi::decode(bytes);
    if (!message) {
      static_cast<void>(offences_.add(program.name, "malformed messages"));
      leave(program);
      return;
    }
    message->visit([&](const auto& request) { apply(program, request); });
    require(offences_.all().size() <= Offences::kMax + 1);
  }

  void leave(Program& program) {
    program.file.reset();
    if (program.process) {
      const node::DetachResult departure = fabric().detach(*program.process, now_);
      for (const node::ProcessId peer : departure.peers) {
        require(peer != *program.process && fabric().has(peer));
      }
      require(!fabric().has(*program.process));
      leave_shared(*program.process);
      program.process.reset();
    }
  }

  void pass_time(Duration time) { now_ = now_ + time; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  void apply(Program& program, const uabi::Hello& hello) {
    if (!program.process) {
      if (const auto process = fabric().attach(hello.host, now_)) {
        program.process = *process;
        program.name.host = hello.host;
      } else {
        require(!process.error().reason.empty());
      }
    }
  }
  void apply(Program& program, const uabi::OpenLane& request) {
    const node::ProcessId peer{fabric::NodeIndex{request.peer.node}, request.peer.slot};
    if (program.process) {
      const auto joined = fabric().join_lane(*program.process, peer);
      require(!joined || (fabric().has(peer) && peer != *program.process));
    }
  }
  void apply(Program& program, const uabi::JoinGroup& request) {
    if (program.process) {
      const auto joined = fabric().join_group(*program.process, fabric::PortIndex{request.port},
                                              request.mgid, request.mlid, now_);
      const auto members = fabric().members(request.mlid);
      require(!joined || std::ranges::find(members, *program.process) != members.end());
    }
  }
  void apply(Program& program, const uabi::LeaveGroup& request) {
    if (program.process) {
      static_cast<void>(!fabric().leave_group(*program.process, fabric::PortIndex{request.port},
                                              request.mgid, request.mlid, now_));
    }
  }
  void apply(Program& program, const uabi::ReportPeer& report) {
    static_cast<void>(
        offences_.add_reported(program.name, uabi::words(report.what), report.count, program.name));
  }
  void apply(Program& program, const uabi::BadKeys& report) {
    if (program.process) {
      static_cast<void>(
          !fabric().note_bad_keys(*program.process,
                                  {
                                      .port = fabric::PortIndex{report.port},
                                      .is_qkey = report.is_qkey,
                                      .count = report.count,
                                      .last = {.source = report.source, .key = report.key}
      },
                                  now_));
    }
  }
  void apply(Program& program, const uabi::StartCapture& request) {
    if (const auto ports = fabric().find_ports(request.port); ports && !program.process) {
      for (const fabric::PortIndex port : *ports) {
        fabric().tap(port);
      }
      for (const fabric::PortIndex port : *ports) {
        fabric().untap(port);
      }
    }
  }
  void apply(Program& program, const uabi::AddFault& request) {
    const auto fault = fabric::read_fault(request.rule);
    require(fault || !fault.error().reason.empty());
    if (!fault || program.process) {
      return;
    }
    require(fabric::read_fault(fabric::to_string(*fault)) == *fault);
    if (const auto number = fabric().add_fault(*fault, now_)) {
      require(fabric().faults().all().back().number == *number);
      const std::vector<std::byte> image = fabric().next_tables();
      require(fabric::TablesView::open(image).has_value());
    }
    static_cast<void>(fabric().faults().end_due(now_));
    require(fabric().faults().next_end() > now_);
  }
  void apply(Program& program, const uabi::ClearFaults& request) {
    if (!program.process) {
      static_cast<void>(!fabric().faults().remove(request.number, now_));
    }
  }
  void apply(Program& program, const uabi::OpenUmad& request) {
    if (program.process || program.file) {
      return;
    }
    node::ManagementPlane& plane = fabric().management();
    const fabric::PortIndex port{request.port % 3U};
    node::ManagementPort& interfaces = plane.port(port);
    program.file =
        std::make_unique<node::UmadFile>(node::UmadPortAccess{.smi = interfaces.smi(),
                                                              .gsi = interfaces.gsi(),
                                                              .tables = fabric().builder(),
                                                              .port = port});
  }
  void apply(Program& program, const uabi::RegisterUmadAgent& request) {
    if (program.file) {
      const auto agent =
          program.file->register_agent({.mgmt_class = request.mgmt_class,
                                        .class_version = request.class_version,
                                        .rmpp_version = request.rmpp_version,
                                        .does_rmpp = request.does_rmpp,
                                        .oui = request.oui,
                                        .methods = mad::MethodSet{request.methods[0]}});
      require(agent ? *agent < node::UmadFile::kMaxAgents : !agent.error().reason.empty());
    }
  }
  void apply(Program& program, const uabi::UnregisterUmadAgent& request) {
    if (program.file) {
      static_cast<void>(!program.file->unregister_agent(request.agent, now_));
    }
  }
  void apply(Program& program, const uabi::UmadMad& message) {
    if (!program.file) {
      return;
    }
    program.file->send(envelope_of(message.header), message.mad, now_);
    static_cast<void>(fabric().run_management(now_));
    while (!program.file->is_empty()) {
      const node::UmadReceived& received = program.file->front();
      require(received.error != 0 || received.mad.size() >= 56);
      program.file->pop();
    }
  }
  void apply(Program& program, const uabi::ChangePort& request) {
    const auto change = node::read_port_change(request.change);
    require(change || !change.error().reason.empty());
    const auto ports = fabric().find_ports(request.port);
    if (!change || !ports || program.process) {
      return;
    }
    for (const fabric::PortIndex port : *ports) {
      static_cast<void>(!fabric().change_port(port, *change, now_));
    }
    const std::vector<std::byte> image = fabric().next_tables();
    require(fabric::TablesView::open(image).has_value());
    has_changed_ports = true;
  }
  void apply(Program& program, const uabi::ChangeNode& request) {
    const auto change = node::read_node_change(request.change);
    require(change || !change.error().reason.empty());
    if (!change || program.process) {
      return;
    }
    if (const auto changed = fabric().change_node(*change, now_); !changed) {
      require(!changed.error().reason.empty());
      return;
    }
    const std::vector<std::byte> image = fabric().next_tables();
    require(fabric::TablesView::open(image).has_value());
    has_changed_nodes = true;
  }

  // --- shared objects; files are identified by the start of the message
  void apply(Program& program, const uabi::OpenXrcDomain& request) {
    if (!program.process) {
      return;
    }
    const auto opened = domains_.open(*program.process,
                                      {.host = program.process->host,
                                       .hca = request.hca,
                                       .device = 1,
                                       .inode = request.request % 4},
                                      request.creates, request.is_exclusive);
    require(opened ? domains_.has(*program.process, opened->domain)
                   : !opened.error().reason.empty());
    require(domains_.of(*program.process).size() <= node::XrcDomains::kMaxOfProcess);
  }
  void apply(Program& program, const uabi::CloseXrcDomain& request) {
    if (program.process && domains_.has(*program.process, request.domain)) {
      const bool is_last = domains_.close(*program.process, request.domain);
      require(is_last == domains_.members(request.domain).empty());
    }
  }
  /// Checks to which process the daemon would relay a message.
  void relay(const Program& program, std::uint32_t domain, uabi::ProcessAddress to) {
    const node::ProcessId peer{fabric::NodeIndex{to.node}, to.slot};
    if (program.process && domains_.has(*program.process, domain) && domains_.has(peer, domain)) {
      require(fabric().has(peer) && peer.host == program.process->host);
    }
  }
  void apply(Program& program, const uabi::XrcRelay& word) {
    relay(program, word.domain, word.peer);
  }
  void apply(Program& program, const uabi::XrcTargetRequest& word) {
    relay(program, word.domain, word.peer);
  }
  void apply(Program& program, const uabi::XrcTargetAnswer& word) {
    relay(program, word.domain, word.peer);
  }
  void apply(Program& program, const uabi::XrcTargetEvent& word) {
    relay(program, word.domain, word.peer);
  }
  void apply(Program& program, const uabi::ShareDevice& request) {
    if (!program.process) {
      return;
    }
    const node::SharedDevices::Name name{
        .host = program.process->host, .device = 1, .inode = request.hca % 4};
    const auto owned = devices_.owned(*program.process, name);
    if (request.is_over) {
      if (owned) {
        static_cast<void>(devices_.leave(*program.process, *owned, true));
        require(devices_.find(*owned) == nullptr);
      }
      return;
    }
    const auto shared = devices_.share(*program.process, name, request.hca);
    require(shared ? devices_.find(*shared)->owner == *program.process
                   : !shared.error().reason.empty());
  }
  void apply(Program& program, const uabi::ImportDevice& request) {
    if (!program.process) {
      return;
    }
    const auto imported =
        devices_.import(*program.process,
                        {.host = program.process->host, .device = 1, .inode = request.request % 4});
    require(imported ? devices_.find(*imported)->owner.host == program.process->host
                     : !imported.error().reason.empty());
    require(devices_.of(*program.process).size() <= node::SharedDevices::kMaxOfProcess);
  }
  void apply(Program& program, const uabi::LeaveDevice& request) {
    if (program.process && devices_.has(*program.process, request.device)) {
      static_cast<void>(devices_.leave(*program.process, request.device, false));
    }
  }
  void ask_owner(const Program& program, std::uint32_t number) {
    const node::SharedDevices::Device* const device = devices_.find(number);
    require(!program.process || !devices_.has(*program.process, number) ||
            (device != nullptr && fabric().has(device->owner)));
  }
  void apply(Program& program, const uabi::ObjectRequest& word) { ask_owner(program, word.device); }
  void apply(Program& program, const uabi::ObjectAnswer& word) { ask_owner(program, word.device); }

  void leave_shared(node::ProcessId process) {
    for (const std::uint32_t domain : domains_.of(process)) {
      static_cast<void>(domains_.close(process, domain));
    }
    for (const std::uint32_t device : devices_.of(process)) {
      for (const node::ProcessId other : devices_.leave(process, device, true)) {
        require(other == process || fabric().has(other));
      }
    }
    require(domains_.of(process).empty() && devices_.of(process).empty());
  }

  void apply(Program& program, const auto&) {
    static_cast<void>(offences_.add(program.name, "messages that it may not send"));
    leave(program);
  }

  Offences offences_;
  node::XrcDomains domains_;
  node::SharedDevices devices_;
  // Starts above zero, because slots are not reused for a while.
  static inline Instant now_{Duration::seconds(1)};
};

/// Restores the initial state for the next input.
void repair_fabric() {
  if (std::exchange(has_changed_nodes, false)) {
    fabric_place() = make_fabric();
    has_changed_ports = false;
  }
  if (!std::exchange(has_changed_ports, false)) {
    return;
  }
  const auto repair = *node::read_port_change("plug width=all speed=all");
  for (std::uint32_t i = 0; i < fabric().builder().ports().size(); ++i) {
    if (fabric().builder().port(fabric::PortIndex{i}).peer != fabric::kNoPort) {
      require(fabric().change_port(fabric::PortIndex{i}, repair, Instant{}).has_value());
    }
  }
}

[[nodiscard]] fuzz::Piece make_piece(Random& random) {
  // Excludes RDMA-CM messages and those of the daemon, which are refused by their type.
  constexpr std::size_t kFirst = uabi::testing::kKindOf<uabi::OpenRdmaCm>;
  constexpr std::size_t kLast = uabi::testing::kKindOf<uabi::NoRdmaCmEvent>;
  std::size_t kind = random.below(uabi::Message::kCount);
  while (kind >= kFirst && kind <= kLast && random.chance(15, 16)) {
    kind = random.below(uabi::Message::kCount);
  }
  return {.head = {static_cast<std::uint8_t>(random.below(3))},
          .message = uabi::testing::sample_octets(kind, random)};
}

}  // namespace
}  // namespace weft::daemon

/// The input consists of pieces: an octet for the program, one for the length, and a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weft::daemon::Desk;
  using weft::daemon::Program;
  std::array<Program, 3> programs;
  Desk desk;
  std::span input{data, size};
  while (input.size() >= 2) {
    const std::size_t who = input[0] % programs.size();
    const std::size_t length = std::min<std::size_t>(input[1], input.size() - 2);
    programs.at(who).name.pid = static_cast<pid_t>(who + 1);
    desk.handle(programs.at(who), std::as_bytes(input.subspan(2, length)));
    input = input.subspan(2 + length);
  }
  for (Program& program : programs) {
    desk.leave(program);
  }
  weft::daemon::require(weft::daemon::fabric().groups().empty());
  weft::daemon::fabric().faults().remove_all(desk.now());
  weft::daemon::repair_fabric();
  weft::node::testing::settle(weft::daemon::fabric(), desk.now());
  desk.pass_time(weft::Duration::seconds(2));
  for (const auto& port : weft::daemon::fabric().builder().ports()) {
    using weft::fabric::PortState;  // brings all links up again
    weft::daemon::require(port.peer == weft::fabric::kNoPort || port.state == PortState::Active);
  }
  desk.pass_time(weft::Duration::milliseconds(20));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::daemon::kFormat,
                                   weft::daemon::make_piece);
}
