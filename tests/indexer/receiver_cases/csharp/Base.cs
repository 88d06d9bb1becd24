namespace Acme
{
  class Base
  {
    protected void Inherited()
    {
    }
  }
}
