namespace Acme
{
  class Store : Base
  {
    private readonly Log log = new Log();
    public Log Audit { get; set; }

    public static Store Open()
    {
      return new Store();
    }

    public void Save()
    {
      Inherited();
      log.Write();
      Audit.Write();
      System.Action f = () => Helper();
    }

    void Helper()
    {
      Open().Save();
    }
  }
}
