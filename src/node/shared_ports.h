#pragma once

// HCA ports that virtual functions share, between the fabric's tables and src/sriov: what subnet
// management makes of the physical port goes to its SharedPort, and what that says of a function's
// port goes into the tables. MADs that functions and the physical port's QP1 send and get pass it.
// Pure, not thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "fabric/function_description.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"
#include "sriov/service_table.h"
#include "sriov/shared_port.h"

namespace weft::node {

class SharedPorts {
 public:
  struct Wire {
    /// A MAD leaves by QP1 of a physical port.
    std::function<void(fabric::PortIndex, const mad::MadPacket&)> send;
    /// A MAD has come for the interface of a function's port, or of the physical one.
    std::function<void(fabric::PortIndex, const mad::MadAddress&, const mad::MadBytes&)> deliver;
  };

  struct Function {
    fabric::PortIndex physical{fabric::kNoPort};
    sriov::FunctionId number{};
  };

  /// `tables` must outlive it.
  SharedPorts(fabric::TablesBuilder& tables, Wire wire) : tables_(tables), wire_(std::move(wire)) {}
  SharedPorts(const SharedPorts&) = delete;
  SharedPorts& operator=(const SharedPorts&) = delete;

  /// Makes what says which function of a physical port a service is of. Call it before the first
  /// port is shared; what it makes is asked as long as that port is.
  using MakeDirectory =
      std::function<std::unique_ptr<sriov::ServiceDirectory>(fabric::PortIndex physical)>;
  void set_directories(MakeDirectory make) { make_directory_ = std::move(make); }

  /// Fabrics without virtual functions.
  [[nodiscard]] bool empty() const { return shared_.empty(); }

  /// `port` becomes the port of a virtual function of `physical`; the function's GUID is that of
  /// `port`. Errors are those of sriov::SharedPort::add.
  [[nodiscard]] Result<void> add(fabric::PortIndex physical, fabric::PortIndex port,
                                 sriov::FunctionId function,
                                 const fabric::FunctionDescription& wanted, Instant now);
  /// The host's own connections at a port of physical_ports(), as Multiplexer::adopt_connections.
  std::size_t adopt_connections(fabric::PortIndex physical,
                                std::span<const sriov::CommunicationId> connections) {
    return shared_.at(physical).port->multiplexer().adopt_connections(connections);
  }
  /// Whether MADs of the port pass a multiplexer: it has functions, or had some.
  [[nodiscard]] bool is_shared(fabric::PortIndex physical) const {
    return shared_.contains(physical);
  }
  /// Changes the function's P_Keys, quotas and policy. Errors are those of
  /// sriov::SharedPort::change.
  [[nodiscard]] Result<void> change(fabric::PortIndex port,
                                    const fabric::FunctionDescription& wanted);
  /// The function gets the GUID that the tables have for its port now.
  void follow_guid(fabric::PortIndex port, Instant now);
  void remove(fabric::PortIndex port, Instant now);
  /// The function of `port` becomes that number of another physical port, with its GUID, its
  /// memberships and its communication IDs. Returns how many of these are in use there, whose
  /// connections are lost. `wanted.pkeys` are of the new port; errors are those of add(), and then
  /// the function is where it was.
  [[nodiscard]] Result<std::size_t> move(fabric::PortIndex port, const Function& to,
                                         const fabric::FunctionDescription& wanted, Instant now);
  /// The physical port is gone, with its functions.
  void remove_physical(fabric::PortIndex physical) { shared_.erase(physical); }
  /// Whether the number may be used at the port.
  [[nodiscard]] bool may_add(fabric::PortIndex physical, sriov::FunctionId function,
                             Instant now) const;

  /// None for ports that are nobody's virtual function.
  [[nodiscard]] std::optional<Function> function_at(fabric::PortIndex port) const;
  /// What the function of a port was given.
  [[nodiscard]] const fabric::FunctionDescription& description_of(fabric::PortIndex port) const;
  /// The physical port of a function, else the port itself.
  [[nodiscard]] fabric::PortIndex physical_of(fabric::PortIndex port) const;
  /// The ports of the functions of a physical port.
  [[nodiscard]] std::vector<fabric::PortIndex> functions_of(fabric::PortIndex physical) const;
  /// Those of all ports of an HCA, in the order in which they came into the fabric: their numbers
  /// rest for a while and can be others when the same functions come again.
  [[nodiscard]] std::vector<fabric::PortIndex> functions_of_hca(fabric::HcaIndex hca) const;
  /// Physical ports that have functions, or had some.
  [[nodiscard]] std::vector<fabric::PortIndex> physical_ports() const;
  /// What multiplexes a port of physical_ports().
  [[nodiscard]] const sriov::SharedPort& shared_port(fabric::PortIndex physical) const {
    return *shared_.at(physical).port;
  }

  /// Sees what passes the tunnels of a physical port's functions.
  using TunnelTap = std::function<void(fabric::PortIndex physical, const sriov::TunnelDatagram&)>;
  void set_tunnel_tap(TunnelTap tap) { tunnel_tap_ = std::move(tap); }

  /// False: the port is not shared, or it is QP0 of a physical port, and the MAD goes as ever.
  [[nodiscard]] bool send(fabric::PortIndex from, mad::InterfaceKind kind,
                          const mad::MadPacket& packet, Instant now);
  [[nodiscard]] bool receive(fabric::PortIndex at, mad::InterfaceKind kind,
                             const mad::MadAddress& source, const mad::MadBytes& bytes,
                             Instant now);

  /// Takes over changes of physical ports, and serves what is due.
  void run(Instant now);
  [[nodiscard]] Instant deadline() const;
  /// True if the tables were changed since the last call.
  [[nodiscard]] bool take_tables_changed() { return std::exchange(tables_changed_, false); }

 private:
  struct Shared {
    std::unique_ptr<sriov::ServiceDirectory> directory;  // null: services are not looked up
    std::unique_ptr<sriov::SharedPort> port;
    std::map<sriov::FunctionId, fabric::PortIndex> functions;
    std::map<fabric::PortIndex, fabric::FunctionDescription> descriptions;
  };

  /// A function that has left `from`, where its GUID is still to be deleted.
  struct Move {
    Function from;
    Function to;
  };

  [[nodiscard]] Shared& shared_at(fabric::PortIndex physical, Instant now);
  void end_moves(fabric::PortIndex from, Instant now);
  void pass_on(fabric::PortIndex physical, Shared& shared, Instant now);
  void update(fabric::PortIndex physical, Shared& shared, Instant now);
  void write_port(fabric::PortIndex physical, fabric::PortIndex port,
                  const sriov::VirtualPort& wanted);

  fabric::TablesBuilder& tables_;
  Wire wire_;
  TunnelTap tunnel_tap_;
  MakeDirectory make_directory_;
  std::map<fabric::PortIndex, Shared> shared_;       // by physical port
  std::map<fabric::PortIndex, Function> functions_;  // by the function's port
  std::map<fabric::PortIndex, Move> moves_;          // the same
  std::uint64_t ports_as_of_{};
  bool tables_changed_{};
};

}  // namespace weft::node
