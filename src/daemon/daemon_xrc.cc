// XRC domains shared by processes: which processes have which domain open, and the messages between
// them (hca/xrc_relay.h).

#include <sys/stat.h>

#include <memory>
#include <utility>

#include "daemon/daemon_impl.h"

namespace weft::daemon {

void Daemon::Impl::open_xrc_domain(Client& client, const uabi::OpenXrcDomain& request,
                                   os::UniqueFd file) {
  const auto refuse = [&](const Error& error) {
    client.send(uabi::XrcDomainOpened{.request = request.request,
                                      .domain = 0,
                                      .may_retry = error.code == ErrorCode::TryAgain,
                                      .reason = error.reason});
  };
  struct stat status{};
  if (request.hca >= view().hcas_of(view().node(client.process->host)).size() ||
      fstat(file.get(), &status) != 0) {
    record_offence(client, "XRC domains of HCAs or files that do not exist");
    refuse({ErrorCode::InvalidArgument, "no such HCA, or no such file"});
    return;
  }
  const auto opened = xrc_domains_.open(*client.process,
                                        {.host = client.process->host,
                                         .hca = request.hca,
                                         .device = status.st_dev,
                                         .inode = status.st_ino},
                                        request.creates, request.is_exclusive);
  if (!opened) {
    refuse(opened.error());
    return;
  }
  if (opened->is_new) {  // keeps the file open, so that its inode number is not reused
    xrc_files_[opened->domain] = std::move(file);
  }
  client.send(uabi::XrcDomainOpened{
      .request = request.request, .domain = opened->domain, .may_retry = false, .reason = {}});
}

void Daemon::Impl::close_xrc_domain(Client& client, const uabi::CloseXrcDomain& request) {
  if (!xrc_domains_.has(*client.process, request.domain)) {
    record_offence(client, "XRC domains closed that it has not open");
    return;
  }
  leave_xrc_domain(*client.process, request.domain);
}

void Daemon::Impl::leave_xrc_domain(node::ProcessId process, std::uint32_t domain) {
  if (xrc_domains_.close(process, domain)) {
    xrc_files_.erase(domain);
    return;
  }
  uabi::XrcRelay gone;
  gone.domain = domain;
  gone.action = uabi::XrcMessage::PeerGone;
  notify_xrc_members(process, gone);
}

/// Sends a message to all members of the domain except `of`.
void Daemon::Impl::notify_xrc_members(node::ProcessId of, uabi::XrcRelay message) {
  message.peer = address_of(of);
  for (const node::ProcessId member : xrc_domains_.members(message.domain)) {
    if (Client* const other = client_of(member); other != nullptr && member != of) {
      other->send(message);
    }
  }
}

/// Relays a message between two members; the daemon verifies that both have the domain open.
void Daemon::Impl::relay_xrc(Client& client, uabi::XrcRelay message) {
  if (!xrc_domains_.has(*client.process, message.domain) ||
      message.action == uabi::XrcMessage::PeerGone) {
    record_offence(client, "messages about XRC domains that it does not have open");
    return;
  }
  if (message.action == uabi::XrcMessage::ProxiesReleased) {
    notify_xrc_members(*client.process, message);
    return;
  }
  const node::ProcessId peer = process_of(message.peer);
  Client* const other = client_of(peer);
  if (other != nullptr && xrc_domains_.has(peer, message.domain) && !other->is_backlogged()) {
    message.peer = address_of(*client.process);
    other->send(message);
  } else if (message.action == uabi::XrcMessage::RequestProxy) {
    message.action = uabi::XrcMessage::NoProxy;
    client.send(message);
  }
}

void Daemon::Impl::leave_xrc_domains(node::ProcessId process) {
  for (const std::uint32_t domain : xrc_domains_.of(process)) {
    leave_xrc_domain(process, domain);
  }
}

}  // namespace weft::daemon
