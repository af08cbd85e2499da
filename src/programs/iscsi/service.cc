#include "programs/iscsi/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <utility>

#include "iscsi/text.h"
#include "os/clock.h"
#include "scsi/protection.h"
#include "scsi/ram_device.h"

namespace weft::programs::iscsi {

namespace {

constexpr std::uint8_t kProtocolIscsi = 5;             // SPC-4 Table 443
constexpr std::chrono::milliseconds kTick{250};        // policy: how exact timeouts are
constexpr std::uint64_t kNaa = 0x3A00'0000'0000'0000;  // locally assigned (SPC-4 §7.8.6.5.4)
constexpr std::uint32_t kMaxTransferBytes = 32 << 20;  // policy, without protection information
constexpr int kShutdownTicks = 8;                      // policy: for what is still to be sent

// A number that a target's name gives again at each start, so that initiators know its disks again.
[[nodiscard]] std::uint64_t naa_of(const std::string& name, std::uint16_t lun) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;  // FNV-1a
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100'0000'01B3;
  }
  return kNaa | ((hash ^ lun * 0x9E37'79B9ULL) & 0x00FF'FFFF'FFFF'FFFF);
}

}  // namespace

Service::Service() : signals_(loop_, SIGTERM, SIGINT, SIGHUP), tick_(loop_) {}

// A SANITIZE goes on at the next start, and not now to its end.
Service::~Service() {
  for (const auto& [name, node] : nodes_) {
    abandon(*node);
  }
}

void Service::abandon(Node& node) {
  for (const UnitConfiguration& unit : node.configuration.units) {
    static_cast<void>(node.scsi->remove_unit(scsi::Lun{unit.lun}, [] {}));  // unless it has gone
  }
}

Result<void> Service::take_up_sanitize(Node& node) {
  for (std::size_t i = 0; i < node.sanitize_files.size(); ++i) {
    const SanitizeFile* const file = node.sanitize_files[i].get();
    const auto unit = node.scsi->unit(scsi::Lun{node.configuration.units[i].lun});
    if (file == nullptr || unit == nullptr) {
      continue;
    }
    if (auto restored = file->restore(*unit); !restored) {
      return restored;
    }
  }
  return {};
}

void Service::wake() {
  asio::post(loop_, [this] {
    server_->handle_completions(os::now());
    connections_->flush();
  });
}

Result<std::unique_ptr<Service::Node>> Service::create_node(const TargetConfiguration& target) {
  auto node = std::make_unique<Node>();
  node->configuration = target;
  node->scsi = std::make_unique<scsi::Target>(scsi::TargetOptions{.locks = LockPolicy::Spin});
  const scsi::PortOptions port{.id = scsi::PortId{1},
                               .protocol = kProtocolIscsi,
                               .designator = weft::iscsi::to_octets(target.name + ",t,0x0001")};
  if (auto added = node->scsi->add_port(port); !added) {
    return std::unexpected(added.error());
  }
  for (const UnitConfiguration& unit : target.units) {
    std::unique_ptr<scsi::BlockDevice> device;
    if (unit.path.empty()) {
      auto ram = scsi::RamDevice::create(
          {.bytes = unit.ram_bytes,
           .block_bytes = unit.block_bytes,
           .read_only = unit.read_only,
           .keeps_protection = unit.protection != scsi::ProtectionType::None,
           .locks = LockPolicy::Spin});
      if (!ram) {
        return std::unexpected(ram.error());
      }
      device = *std::move(ram);
    } else {
      auto file = FileDevice::open(
          {.path = unit.path, .block_bytes = unit.block_bytes, .read_only = unit.read_only},
          workers_);
      if (!file) {
        return std::unexpected(file.error());
      }
      device = *std::move(file);
    }
    scsi::UnitOptions options{.lun = scsi::Lun{unit.lun},
                              .product = unit.path.empty() ? "MEMORY DISK" : "FILE DISK",
                              .naa = naa_of(target.name, unit.lun),
                              .protection = unit.protection,
                              .max_transfer_bytes = kMaxTransferBytes};
    options.serial = fmt::format("{:016x}", options.naa);
    node->sanitize_files.push_back(SanitizeFile::of_disk(unit.path));
    options.sanitize_store = node->sanitize_files.back().get();
    if (auto added = node->scsi->add_unit(options, *device); !added) {
      return std::unexpected(added.error());
    }
    node->devices.push_back(std::move(device));
  }
  return node;
}

Result<weft::iscsi::NodeOptions> Service::options_of(const Node& node) const {
  const TargetConfiguration& target = node.configuration;
  weft::iscsi::NodeOptions options{.name = target.name,
                                   .alias = target.alias,
                                   .scsi = node.scsi.get(),
                                   .port = scsi::PortId{1},
                                   .chap = {},
                                   .initiators = target.initiators};
  if (!target.chap_file.empty()) {
    auto chap = read_chap_file(target.chap_file);
    if (!chap) {
      return std::unexpected(chap.error());
    }
    options.chap = *std::move(chap);
  }
  return options;
}

Result<void> Service::add(const TargetConfiguration& target) {
  auto node = create_node(target);
  if (!node) {
    return std::unexpected(node.error());
  }
  const auto options = options_of(**node);
  if (!options) {
    return std::unexpected(options.error());
  }
  if (auto added = server_->add_node(*options); !added) {
    return added;
  }
  const auto added = nodes_.emplace(target.name, *std::move(node)).first;
  if (auto taken = take_up_sanitize(*added->second); !taken) {
    remove(added);
    return taken;
  }
  return {};
}

Service::Nodes::iterator Service::remove(Nodes::iterator node) {
  static_cast<void>(server_->remove_node(node->first, os::now()));  // it is there
  abandon(*node->second);
  removed_.push_back(std::move(node->second));
  return nodes_.erase(node);
}

Result<void> Service::listen(const std::vector<std::string>& portals) {
  // Of a portal at every address initiators know one: where they asked.
  const auto tell = [](std::vector<std::string>& told, const std::string& address) {
    if (!address.starts_with("0.0.0.0:") && !address.starts_with("[::]:")) {
      told.push_back(address);
    }
  };
  std::vector<std::string> tcp;
  std::vector<std::string> rdma;
  for (const std::string& text : portals) {
    if (transport_ != nullptr && text.starts_with(transport_->prefix())) {
      const std::string prefix{transport_->prefix()};
      const auto listening = transport_->listen(text.substr(prefix.size()));
      if (!listening) {
        return std::unexpected(listening.error());
      }
      addresses_.push_back(prefix + *listening);
      tell(rdma, *listening);
      continue;
    }
    auto portal = Portal::listen(loop_, text, *connections_);
    if (!portal) {
      return std::unexpected(portal.error());
    }
    portals_.push_back(*std::move(portal));
    addresses_.push_back(portals_.back()->address());
    tell(tcp, portals_.back()->address());
  }
  server_->set_addresses(std::move(tcp), std::move(rdma));
  return {};
}

Result<std::unique_ptr<Service>> Service::start(const Configuration& configuration, Reload reload,
                                                const MakeTransport& make_transport) {
  std::unique_ptr<Service> service{new Service};
  service->reload_ = std::move(reload);
  service->server_ = std::make_unique<weft::iscsi::TargetServer>(
      weft::iscsi::ServerOptions{
          .locks = LockPolicy::Spin,
          .max_transfer_bytes = kMaxTransferBytes + kMaxTransferBytes / 512 * scsi::kTupleBytes},
      *service);
  service->connections_ = std::make_unique<Connections>(*service->server_);
  if (make_transport) {
    service->transport_ = make_transport(service->loop_, *service->server_);
  }
  for (const TargetConfiguration& target : configuration.targets) {
    if (auto added = service->add(target); !added) {
      return std::unexpected(added.error());
    }
  }
  if (auto listening = service->listen(configuration.portals); !listening) {
    return std::unexpected(listening.error());
  }
  service->await_signal();
  service->await_tick();
  return service;
}

void Service::run() { loop_.run(); }

void Service::await_signal() {
  signals_.async_wait([this](const std::error_code& error, int signal) {
    if (error) {
      return;
    }
    if (signal == SIGHUP) {
      reload();
      await_signal();
    } else {
      shut_down();
    }
  });
}

void Service::await_tick() {
  tick_.expires_after(kTick);
  tick_.async_wait([this](const std::error_code& error) {
    if (error) {
      return;
    }
    const Instant now = os::now();
    if (now >= server_->deadline()) {
      server_->handle_timeout(now);
      connections_->flush();
    }
    await_tick();
  });
}

void Service::reload() {
  const auto say = [](const Error& error) {
    fmt::print(stderr, "weft-iscsi: not reloaded: {}\n", error.reason);
  };
  const auto configuration = reload_();
  if (!configuration) {
    say(configuration.error());
    return;
  }
  std::map<std::string, TargetConfiguration> wanted;
  for (const TargetConfiguration& target : configuration->targets) {
    wanted[target.name] = target;
  }
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto stays = wanted.find(node->first);
    if (stays == wanted.end() || stays->second.units != node->second->configuration.units) {
      node = remove(node);
      continue;
    }
    node->second->configuration = stays->second;
    if (const auto options = options_of(*node->second); !options) {
      say(options.error());
    } else if (auto changed = server_->change_node(*options); !changed) {
      say(changed.error());
    }
    wanted.erase(stays);
    ++node;
  }
  for (const auto& [name, target] : wanted) {
    if (auto added = add(target); !added) {
      say(added.error());
    }
  }
  connections_->flush();
  fmt::print("reloaded\n");
  std::fflush(stdout);
}

void Service::shut_down() {
  for (const auto& portal : portals_) {
    portal->close();
  }
  if (transport_ != nullptr) {
    transport_->close();
  }
  server_->shut_down(os::now());
  connections_->flush();
  tick_.cancel();
  // What is still to be sent to slow peers has a little time.
  const auto timer = std::make_shared<asio::steady_timer>(loop_, kTick * kShutdownTicks);
  timer->async_wait([this, timer](const std::error_code& /*error*/) { loop_.stop(); });
  if (connections_->size() + (transport_ != nullptr ? transport_->connections() : 0) == 0) {
    loop_.stop();
  }
}

}  // namespace weft::programs::iscsi
